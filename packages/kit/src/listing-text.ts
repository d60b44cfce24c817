const NUMBERS = new Intl.NumberFormat('uk', { maximumFractionDigits: 2 });

/** Returns a number as every part shows it: `15 000`, `52,5`. The spaces do not break, and there are two decimals at most. */
export function formatNumber(value: number): string {
  return NUMBERS.format(value);
}

/**
 * Returns a number with its unit: `2 rooms`, `54,5 m²`.
 * @param unit Of two forms the first is for 1.
 */
export function formatAmount(
  value: number,
  unit: string | readonly [one: string, other: string] | undefined,
): string {
  const word = typeof unit === 'object' ? unit[value === 1 ? 0 : 1] : unit;
  return word === undefined ? formatNumber(value) : `${formatNumber(value)} ${word}`;
}

/**
 * Returns a price as every part shows it, whatever the language: `15 000 UAH`.
 * @param currency ISO 4217; null where the listing names none.
 */
export function formatPrice(price: number, currency: string | null | undefined): string {
  return currency ? `${formatNumber(price)}\u00A0${currency}` : formatNumber(price);
}

/** Returns a listing's id as every part shows it, and as `oselya chat` understands it: `#22`. */
export function formatListingId(listingId: number): string {
  return `#${listingId}`;
}
