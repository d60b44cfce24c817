const NUMBERS = new Intl.NumberFormat('uk', { maximumFractionDigits: 2 });

/** Returns a number as every part shows it: `15 000`, `52,5`, with non-breaking spaces and two decimals at most. */
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

/** The longest message of a user in a conversation, in characters. docs/protocol.md, Messages. */
export const MAX_TEXT_LENGTH = 16_000;

/**
 * How long each step of a sign-in may take: at the identity provider, and then, for a terminal, on the page that asks.
 * Contract 3, Login.
 */
export const SIGN_IN_STEP_MINUTES = 10;

/** As many characters as people compare. */
const MARK_LENGTH = 8;

/** Returns the part of a code challenge that the page and the terminal show, for people to compare. RFC 8252 §8.10. */
export const markOf = (codeChallenge: string): string => codeChallenge.slice(0, MARK_LENGTH);
