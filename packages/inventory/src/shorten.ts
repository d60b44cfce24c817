import { maskAround } from './credentials.ts';

// How much of a text from a file a message repeats, in characters.
const SHOWN_CHARACTERS = 60;

// How far a text is looked at, in UTF-16 code units: a password goes on behind what is shown of its address.
const READ_UNITS = 8 * 1024;

/** The beginning of a text that is long, with a mark that it goes on; other texts whole. Credentials are masked. */
export function shorten(text: string, { isId = false } = {}): string {
  const isCutAfter = text.length > READ_UNITS;
  const { left: plain } = maskAround(text.slice(0, READ_UNITS), READ_UNITS, { isCutAfter, isId });
  // A character has at most two code units, so no more needs to be taken apart.
  const characters = Array.from(plain.slice(0, 2 * SHOWN_CHARACTERS + 2));
  if (characters.length <= SHOWN_CHARACTERS && !isCutAfter) return plain;
  return `${characters.slice(0, SHOWN_CHARACTERS).join('')}…`;
}

/** A text from a file as a message quotes it. */
export function quoted(text: string): string {
  return JSON.stringify(shorten(text));
}

/** The id of a record as a message quotes it. */
export function quotedId(id: string): string {
  return JSON.stringify(shorten(id, { isId: true }));
}
