// What makes a terminal show something else than what was written, beside white space: control
// characters, the marks that reorder text, and halves of characters.
const UNSAFE = /[\p{Cc}\p{Cs}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;

/** Text from anywhere as one line that is safe to print: what would act on the terminal is left out. */
export function oneLine(text: string): string {
  return text.replace(/\s+/gu, ' ').replace(UNSAFE, '').trim();
}

/** Text of several lines that is safe to print: what would act on the terminal is left out of it. */
export function printableText(text: string): string {
  return text.replace(UNSAFE, (character) => (/[\n\t]/.test(character) ? character : ''));
}

// JSON escapes the first 32 control characters and lone surrogates itself.
const UNSAFE_IN_JSON = /[\u007F-\u009F\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/g;

/**
 * A value as JSON to print: the same value, with what would act on the terminal escaped.
 * @param indent 0 for all of it in one line.
 */
export function printableJson(value: unknown, indent = 2): string {
  return JSON.stringify(value, null, indent).replace(
    UNSAFE_IN_JSON,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
