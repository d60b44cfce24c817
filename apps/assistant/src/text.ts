const SURROGATE_PAIR_PATTERN = /^[\uD800-\uDBFF][\uDC00-\uDFFF]$/;

/** Truncates text to `maxLength` UTF-16 code units without splitting a surrogate pair. */
export function cutText(text: string, maxLength: number): string {
  const isSplit = SURROGATE_PAIR_PATTERN.test(text.slice(maxLength - 1, maxLength + 1));
  return text.slice(0, isSplit ? maxLength - 1 : maxLength);
}

/** Truncates longer text to `maxLength` UTF-16 code units, and appends an ellipsis. */
export function shortenText(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${cutText(text, maxLength).trimEnd()}…`;
}

/** Truncates text to `maxBytes` UTF-8 bytes without splitting a character. */
export function cutToBytes(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  // A streaming decoder buffers an incomplete character instead of replacing it.
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  return decoder.decode(bytes.subarray(0, Math.max(0, maxBytes)), { stream: true });
}

/** Removes NUL characters and replaces lone surrogates, which PostgreSQL cannot store. */
export function toStorableText(text: string): string {
  return text.replaceAll('\0', '').toWellFormed();
}

const UNSTORABLE_ESCAPE_PATTERN = /\\u(?:0000|d[89a-f])/;

/** Encodes a value as JSON that `jsonb` accepts. */
export function toStorableJson(value: unknown): string {
  const json = JSON.stringify(value);
  if (!UNSTORABLE_ESCAPE_PATTERN.test(json)) return json;
  return JSON.stringify(value, (_key, member: unknown) => {
    if (typeof member === 'string') return toStorableText(member);
    if (typeof member !== 'object' || member === null || Array.isArray(member)) return member;
    return Object.fromEntries(
      Object.entries(member).map(([name, entry]) => [toStorableText(name), entry]),
    );
  });
}

/** Returns whether a value is a string of 1 to `maxLength` UTF-16 code units that the database returns unchanged. */
export function isStorable(value: unknown, maxLength: number): value is string {
  const isText = typeof value === 'string' && value !== '' && value.length <= maxLength;
  return isText && value === toStorableText(value);
}
