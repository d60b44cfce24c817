// What makes a terminal show something else than what was written, beside white space: control
// characters, the marks that reorder text, and halves of characters.
const UNSAFE = /[\p{Cc}\p{Cs}\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;

/** Text from anywhere as one line that is safe to print: what would act on the terminal is left out. */
export function oneLine(text: string): string {
  return text.replace(/\s+/gu, ' ').replace(UNSAFE, '').trim();
}

// JSON escapes the first 32 control characters and lone surrogates itself.
const UNSAFE_IN_JSON = /[\u007F-\u009F\u200E\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/g;

/** A value as JSON to print: the same value, with what would act on the terminal escaped. */
export function printableJson(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(
    UNSAFE_IN_JSON,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
