// Control characters, lone surrogates, line separators, and the marks that reorder text: each can
// make a terminal or a log show something else than what was written.
const INVISIBLE = /[\p{Cc}\p{Cs}\u200E\u200F\u2028\u2029\u202A-\u202E\u2066-\u2069\uFEFF]/gu;

/** Text from a file, safe to print: what would act on the terminal is shown as a JSON escape. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}
