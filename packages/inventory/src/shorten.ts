// How much of a text from a file a message repeats, in characters.
const SHOWN_CHARACTERS = 60;

/** The beginning of a text that is long, with a mark that it goes on; other texts as they are. */
export function shorten(text: string): string {
  // A character has at most two code units, so no more needs to be taken apart.
  const characters = Array.from(text.slice(0, 2 * SHOWN_CHARACTERS + 2));
  if (characters.length <= SHOWN_CHARACTERS) return text;
  return `${characters.slice(0, SHOWN_CHARACTERS).join('')}…`;
}

/** A text from a file as a message quotes it. */
export function quoted(text: string): string {
  return JSON.stringify(shorten(text));
}
