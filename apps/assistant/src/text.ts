const SPLIT_PAIR = /^[\uD800-\uDBFF][\uDC00-\uDFFF]$/;

/**
 * Cuts a text without splitting a surrogate pair.
 * @param length Maximum length in UTF-16 code units.
 */
export function cutText(text: string, length: number): string {
  return text.slice(0, SPLIT_PAIR.test(text.slice(length - 1, length + 1)) ? length - 1 : length);
}

/**
 * Cuts a text that is too long and appends an ellipsis.
 * @param length Maximum length in UTF-16 code units, without the ellipsis.
 */
export function shortenText(text: string, length: number): string {
  return text.length <= length ? text : `${cutText(text, length).trimEnd()}…`;
}

/** Cuts a text to a number of bytes as UTF-8 without splitting a character. */
export function cutToBytes(text: string, bytes: number): string {
  const whole = Buffer.from(text);
  if (whole.length <= bytes) return text;
  // A streaming decoder holds an incomplete character back instead of replacing it.
  return new TextDecoder().decode(whole.subarray(0, Math.max(0, bytes)), { stream: true });
}

/** Removes what PostgreSQL cannot store from a text: NUL characters and lone surrogates. */
export function storable(text: string): string {
  return text.replaceAll('\0', '').toWellFormed();
}

const UNSTORABLE = /\\u(?:0000|d[89a-f])/;

/** Encodes a value as JSON that `jsonb` accepts, with every text in it made storable. */
export function storableJson(value: unknown): string {
  const json = JSON.stringify(value);
  if (!UNSTORABLE.test(json)) return json;
  return JSON.stringify(value, (_key, member: unknown) => {
    if (typeof member === 'string') return storable(member);
    if (typeof member !== 'object' || member === null || Array.isArray(member)) return member;
    return Object.fromEntries(
      Object.entries(member).map(([name, entry]) => [storable(name), entry]),
    );
  });
}

/**
 * Returns whether a value is a text, not empty, that the database returns unchanged.
 * @param maxLength In UTF-16 code units.
 */
export function isStorable(value: unknown, maxLength: number): value is string {
  return (
    typeof value === 'string' &&
    value !== '' &&
    value.length <= maxLength &&
    !value.includes('\0') &&
    value.isWellFormed()
  );
}
