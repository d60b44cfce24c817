// Control characters, lone surrogates, line separators, and format characters, which reorder or hide text: each
// can make a terminal or a log show something else than what was written.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

// All but ends of lines, tabs, and the joiners that words of Persian and many emoji are written with.
const PLAIN = /[^\n\r\t\u200C\u200D]+/g;

// Nearly all texts have none of them, and are told sooner by having printable ASCII alone.
const SPECIAL = /[^ -~]/;

/** Text from a file, safe to print: what would act on the terminal is shown as a JSON escape. */
export function visible(text: string): string {
  return SPECIAL.test(text) ? text.replace(INVISIBLE, escape) : text;
}

/** The same for a page or a table that people read, in which ends of lines, tabs and joiners stay. */
export function visibleText(text: string): string {
  return SPECIAL.test(text) ? text.replace(PLAIN, visible) : text;
}

/** A value as JSON (RFC 8259) that is safe to print, and means the same. */
export function jsonText(value: unknown, indent?: number): string {
  // Outside of strings there are the ends of lines only, and inside they are escapes already.
  const text = JSON.stringify(value, null, indent);
  if (!SPECIAL.test(text)) return text;
  return text.replace(INVISIBLE, (character) =>
    character === '\n' ? character : escape(character),
  );
}

/** A list as `jsonText` writes it with an indent of two, piece by piece; `margin` is what each line begins with. */
export function* jsonList(values: Iterable<unknown>, margin = ''): Generator<string> {
  let separator = '[';
  for (const value of values) {
    const text = jsonText(value, 2).replaceAll('\n', `\n${margin}  `);
    yield `${separator}\n${margin}  ${text}`;
    separator = ',';
  }
  yield separator === '[' ? '[]' : `\n${margin}]`;
}

function escape(character: string): string {
  return Array.from({ length: character.length }, (_, index) => {
    return `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`;
  }).join('');
}
