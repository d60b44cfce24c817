import { escapeHtml } from '@oselya/kit';
import { APOSTROPHES, INVISIBLE_CHARACTERS, normaliseText } from '../text.ts';

const LETTER_PATTERN = String.raw`[\p{L}\p{Nd}\p{M}²³]`;

/** Word in a text: letters and digits, and between them characters that the normaliser removes. */
const WORD_PATTERN = new RegExp(
  `${LETTER_PATTERN}(?:[${APOSTROPHES}${INVISIBLE_CHARACTERS}]*${LETTER_PATTERN})*`,
  'gu',
);

/** Maximum length of a passage, in UTF-16 code units. */
const PASSAGE_LENGTH = 240;

/** Length of the beginning of a text that is searched, to limit the cost of long texts. */
const SEARCHED_LENGTH = 20_000;

/** Maximum distance that the edge of a passage may move to reach a space. */
const MAX_EDGE_SHIFT = 40;

type WordMatch = { start: number; end: number; word: string };

/**
 * Returns the passage of a text with the most words of a query, or the beginning of the text if it has none. The
 * result is HTML: found words are in `<mark>`, and the rest is escaped. PostgreSQL's `ts_headline` neither escapes
 * HTML nor applies our normaliser.
 * @param words Words of the normalised query.
 */
export function highlight(text: string, words: ReadonlySet<string>): string {
  const found = [...findWords(text, words)];
  const [from, to] = choosePassage(text, found);
  let html = from > 0 ? '…' : '';
  let position = from;
  for (const { start, end } of found) {
    if (start < from || end > to) continue;
    html += escapeHtml(text.slice(position, start));
    html += `<mark>${escapeHtml(text.slice(start, end))}</mark>`;
    position = end;
  }
  return html + escapeHtml(text.slice(position, to)) + (to < text.length ? '…' : '');
}

function* findWords(text: string, words: ReadonlySet<string>): Generator<WordMatch> {
  for (const { 0: written, index } of text.slice(0, SEARCHED_LENGTH).matchAll(WORD_PATTERN)) {
    // The normaliser can split a word: "5'6" becomes "5 6".
    const word = normaliseText(written)
      .split(' ')
      .find((one) => words.has(one));
    if (word !== undefined) yield { start: index, end: index + written.length, word };
  }
}

/** Returns the range with the most distinct query words, extended to the length of a passage. */
function choosePassage(text: string, found: readonly WordMatch[]): [from: number, to: number] {
  let best = { variety: 0, start: 0, end: 0 };
  for (const [index, { start }] of found.entries()) {
    const seen = new Set<string>();
    let end = start;
    for (let next = index; next < found.length; next += 1) {
      const span = found[next];
      if (span === undefined || span.end > start + PASSAGE_LENGTH) break;
      seen.add(span.word);
      end = span.end;
    }
    if (seen.size > best.variety) best = { variety: seen.size, start, end };
  }
  const room = Math.max(0, PASSAGE_LENGTH - (best.end - best.start));
  const from = findWordEdge(text, best.start - Math.floor(room / 2));
  return [from, Math.max(best.end, findWordEdge(text, from + PASSAGE_LENGTH))];
}

/** Returns the last space before a position, or the position itself if no space is near. */
function findWordEdge(text: string, position: number): number {
  if (position <= 0) return 0;
  if (position >= text.length) return text.length;
  const space = text.lastIndexOf(' ', position);
  if (space > position - MAX_EDGE_SHIFT) return Math.max(0, space);
  const isInsideSurrogatePair = /[\uDC00-\uDFFF]/.test(text.charAt(position));
  return isInsideSurrogatePair ? position - 1 : position;
}
