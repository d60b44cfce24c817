import { maskCredentials } from './credentials.ts';

// How much of a text from a file a message repeats, in characters.
const SHOWN_CHARACTERS = 60;

// How far a text is looked at, in UTF-16 code units: a password goes on behind what is shown of its address.
const READ_UNITS = 8 * 1024;

/** The beginning of a text that is long, with a mark that it goes on; other texts whole. Credentials are masked. */
export function shorten(text: string): string {
  const plain = maskCredentials(text.slice(0, READ_UNITS));
  // A character has at most two code units, so no more needs to be taken apart.
  const characters = Array.from(plain.slice(0, 2 * SHOWN_CHARACTERS + 2));
  if (characters.length <= SHOWN_CHARACTERS) return plain;
  return `${characters.slice(0, SHOWN_CHARACTERS).join('')}…`;
}

/** A text from a file as a message quotes it. */
export function quoted(text: string): string {
  return JSON.stringify(shorten(text));
}
