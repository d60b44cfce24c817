const NUMBER_FORMAT = new Intl.NumberFormat('uk', { maximumFractionDigits: 2 });

/** Formats a number with non-breaking spaces and at most two decimals: `15 000`, `52,5`. */
export function formatNumber(value: number): string {
  return NUMBER_FORMAT.format(value);
}

/**
 * Formats a number with its unit: `2 rooms`, `54,5 m²`.
 * @param unit Unit, or its singular and plural. Undefined for a number without a unit.
 */
export function formatAmount(
  value: number,
  unit: string | readonly [singular: string, plural: string] | undefined,
): string {
  const unitName = typeof unit === 'object' ? unit[value === 1 ? 0 : 1] : unit;
  return unitName === undefined ? formatNumber(value) : `${formatNumber(value)} ${unitName}`;
}

/**
 * Formats a price: `15 000 UAH`.
 * @param currency ISO 4217 code. Null if the listing has no currency.
 */
export function formatPrice(price: number, currency: string | null | undefined): string {
  return currency ? `${formatNumber(price)}\u00A0${currency}` : formatNumber(price);
}

/** Formats a listing ID for users: `#22`. `oselya chat` accepts the same format. */
export function formatListingId(listingId: number): string {
  return `#${listingId}`;
}

/**
 * Time limit for each sign-in step: at the identity provider and, for a terminal, on the confirmation page.
 * Contract 3, Login.
 */
export const SIGN_IN_STEP_MINUTES = 10;

/**
 * Returns the first 8 characters of a code challenge. Users compare them on the page and in the terminal. RFC 8252
 * §8.6.
 */
export function shortenCodeChallenge(codeChallenge: string): string {
  return codeChallenge.slice(0, 8);
}
