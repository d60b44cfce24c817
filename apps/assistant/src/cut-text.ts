/**
 * The beginning of a text, which ends at no half of a character: what is stored or sent to a model as UTF-8 would
 * have U+FFFD there.
 * @param length At most, in UTF-16 code units. Where the last of them begins a surrogate pair, one less is given.
 */
export function cutText(text: string, length: number): string {
  return text.slice(0, SPLIT_PAIR.test(text.slice(length - 1, length + 1)) ? length - 1 : length);
}

/** Both halves of a character, in a text of two code units. */
const SPLIT_PAIR = /^[\uD800-\uDBFF][\uDC00-\uDFFF]$/;

/**
 * A text that is told by how it begins where it is too long.
 * @param length At most, as of {@link cutText}, with an ellipsis beside it.
 */
export function shortenText(text: string, length: number): string {
  return text.length <= length ? text : `${cutText(text, length).trimEnd()}…`;
}

/**
 * The beginning of a text, of at most so many bytes as UTF-8, which ends at no half of a character.
 * @param bytes Nothing is left where it is 0 or less.
 */
export function cutToBytes(text: string, bytes: number): string {
  const whole = Buffer.from(text);
  if (whole.length <= bytes) return text;
  // As of a stream, so that the character at the cut is left out and not broken.
  return new TextDecoder().decode(whole.subarray(0, Math.max(0, bytes)), { stream: true });
}
