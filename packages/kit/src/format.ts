const NUMBERS = new Intl.NumberFormat('uk', { maximumFractionDigits: 2 });

/** Formats a number with non-breaking spaces and at most two decimals: `15 000`, `52,5`. */
export function formatNumber(value: number): string {
  return NUMBERS.format(value);
}

/**
 * Formats a number with its unit: `2 rooms`, `54,5 m²`.
 * @param unit Unit, or its singular and plural.
 */
export function formatAmount(
  value: number,
  unit: string | readonly [one: string, other: string] | undefined,
): string {
  const word = typeof unit === 'object' ? unit[value === 1 ? 0 : 1] : unit;
  return word === undefined ? formatNumber(value) : `${formatNumber(value)} ${word}`;
}

/**
 * Formats a price: `15 000 UAH`.
 * @param currency ISO 4217 code. Null if the listing has no currency.
 */
export function formatPrice(price: number, currency: string | null | undefined): string {
  return currency ? `${formatNumber(price)}\u00A0${currency}` : formatNumber(price);
}

/** Formats the ID of a listing for users: `#22`. `oselya chat` accepts the same format. */
export function formatListingId(listingId: number): string {
  return `#${listingId}`;
}
