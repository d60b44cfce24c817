import { escapeHtml } from '@oselya/kit';
import { APOSTROPHES, INVISIBLE, normaliseText } from '../text.ts';

const LETTER = String.raw`[\p{L}\p{Nd}\p{M}²³]`;

/** A written word: letters and digits, with the characters inside it that the normaliser drops. */
const WORD = new RegExp(`${LETTER}(?:[${APOSTROPHES}${INVISIBLE}]*${LETTER})*`, 'gu');

/** Longest passage, in UTF-16 units of the original text. */
const PASSAGE_LENGTH = 240;

/** Passages are searched in so much of a text: the rest is not worth the time. */
const SEARCHED_LENGTH = 20_000;

/** How far a passage's edge may move to stand between words. */
const LONGEST_CUT = 40;

type Span = { start: number; end: number; word: string };

/**
 * Returns the passage of a text with the most words of a query, as HTML with the words in `<mark>` and everything else
 * escaped. PostgreSQL's `ts_headline` neither escapes nor finds words that only the normaliser makes equal.
 * @param words The words of the normalised query.
 * @returns The beginning of the text if it has none of the words.
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

function* findWords(text: string, words: ReadonlySet<string>): Generator<Span> {
  for (const { 0: written, index } of text.slice(0, SEARCHED_LENGTH).matchAll(WORD)) {
    // The normaliser may split a written word: "5'6" is "5 6".
    const word = normaliseText(written)
      .split(' ')
      .find((one) => words.has(one));
    if (word !== undefined) yield { start: index, end: index + written.length, word };
  }
}

/** The passage that begins at a found word and has the most different ones, with room around it. */
function choosePassage(text: string, found: readonly Span[]): [from: number, to: number] {
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
  const from = wordEdge(text, best.start - Math.floor(room / 2));
  return [from, Math.max(best.end, wordEdge(text, from + PASSAGE_LENGTH))];
}

/** The last space before a position, or the position itself where none is near. */
function wordEdge(text: string, position: number): number {
  if (position <= 0) return 0;
  if (position >= text.length) return text.length;
  const space = text.lastIndexOf(' ', position);
  if (space > position - LONGEST_CUT) return Math.max(0, space);
  const isInsidePair = /[\uDC00-\uDFFF]/.test(text.charAt(position));
  return isInsidePair ? position - 1 : position;
}
