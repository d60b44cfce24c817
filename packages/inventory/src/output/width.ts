/** What terminals show in two columns: emoji, and characters of East Asia that are not of half width (UAX #11). */
const WIDE =
  /^(?![\uff61-\uffdc])(?:\p{Emoji_Presentation}|\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}|[\u3000-\u303e\uff01-\uff60\uffe0-\uffe6])|\ufe0f/u;

/** How many columns a terminal takes for a text of one line, as nearly as can be told without the terminal. */
export function columnsOf(text: string): number {
  let columns = 0;
  // What is joined, as families and flags are, or stands upon a letter is shown as one.
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    columns += WIDE.test(segment) ? 2 : 1;
  }
  return columns;
}
