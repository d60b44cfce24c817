import { escapeHtml } from '@oselya/kit';
import { APOSTROPHES, INVISIBLE_CHARACTERS, normalizeText } from '../text.ts';
import { findFacts } from './fact-terms.ts';
import { STOP_WORDS, stemWord } from './stems.ts';

const WORD_CHARACTER = String.raw`[\p{L}\p{Nd}\p{M}²³]`;

/** Pattern of a word: letters and digits, and between them characters that the normalizer removes. */
const WORD_PATTERN = new RegExp(
  `${WORD_CHARACTER}(?:[${APOSTROPHES}${INVISIBLE_CHARACTERS}]*${WORD_CHARACTER})*`,
  'gu',
);

/** Maximum length of a passage, in UTF-16 code units. */
const MAX_PASSAGE_LENGTH = 240;

/** Maximum length of the searched text, because the cost grows with the length. */
const MAX_SEARCHED_LENGTH = 20_000;

/** Maximum distance by which the edge of a passage moves to reach a space. */
const MAX_EDGE_SHIFT = 40;

/** Decides which normalized words to mark. */
export type WordMatcher = { has: (word: string) => boolean };

type WordMatch = { start: number; end: number; word: string };

/**
 * Returns the passage with the most query words, or the beginning of the text if none match. The result is HTML:
 * matched words are in `<mark>`, and everything else is escaped. PostgreSQL's `ts_headline` neither escapes HTML nor
 * applies `normalizeText`.
 * @param words Normalized query words, or a matcher of words.
 */
export function highlight(text: string, words: WordMatcher): string {
  const matches = [...findWords(text, words)];
  const [passageStart, passageEnd] = choosePassage(text, matches);
  let html = passageStart > 0 ? '…' : '';
  let writtenEnd = passageStart;
  for (const { start, end } of matches) {
    if (start < passageStart || end > passageEnd) continue;
    html += escapeHtml(text.slice(writtenEnd, start));
    html += `<mark>${escapeHtml(text.slice(start, end))}</mark>`;
    writtenEnd = end;
  }
  return (
    html + escapeHtml(text.slice(writtenEnd, passageEnd)) + (passageEnd < text.length ? '…' : '')
  );
}

function* findWords(text: string, words: WordMatcher): Generator<WordMatch> {
  for (const { 0: writtenWord, index } of text
    .slice(0, MAX_SEARCHED_LENGTH)
    .matchAll(WORD_PATTERN)) {
    // The normalizer can split a word: "5'6" becomes "5 6".
    const word = normalizeText(writtenWord)
      .split(' ')
      .find((normalizedPart) => words.has(normalizedPart));
    if (word !== undefined) yield { start: index, end: index + writtenWord.length, word };
  }
}

/** Term or beginning of a term in a `tsquery`. */
const TERM_PATTERN = /'(?<term>[^']+)'(?<isPrefix>:\*)?/g;
/** Terms that a listing must not have. */
const EXCLUDED_TERMS_PATTERN = /& !\([^)]*\)/g;

/** Creates a matcher of the words that share a stem or a fact with a query, such as "двокімнатна" for "2к". */
export function createStemMatcher(groups: readonly { tsquery: string }[]): WordMatcher {
  const terms = new Set<string>();
  const prefixes: string[] = [];
  for (const { tsquery } of groups) {
    for (const { groups: operand } of tsquery
      .replaceAll(EXCLUDED_TERMS_PATTERN, '')
      .matchAll(TERM_PATTERN)) {
      const { term = '', isPrefix } = operand ?? {};
      if (isPrefix === undefined) terms.add(term);
      else prefixes.push(term);
    }
  }
  const isFound = (term: string) =>
    terms.has(term) || prefixes.some((prefix) => term.startsWith(prefix));
  return {
    has: (word) =>
      !STOP_WORDS.has(word) &&
      (stemWord(word).some(isFound) ||
        findFacts(word).some((fact) => fact.terms.some((term) => terms.has(term)))),
  };
}

/** Returns the range with the most distinct query words, extended to the passage length. */
function choosePassage(
  text: string,
  matches: readonly WordMatch[],
): [passageStart: number, passageEnd: number] {
  let bestRange = { wordCount: 0, start: 0, end: 0 };
  for (const [index, { start }] of matches.entries()) {
    const distinctWords = new Set<string>();
    let end = start;
    for (let nextIndex = index; nextIndex < matches.length; nextIndex += 1) {
      const nextMatch = matches[nextIndex];
      if (nextMatch === undefined || nextMatch.end > start + MAX_PASSAGE_LENGTH) break;
      distinctWords.add(nextMatch.word);
      end = nextMatch.end;
    }
    if (distinctWords.size > bestRange.wordCount)
      bestRange = { wordCount: distinctWords.size, start, end };
  }
  const freeLength = Math.max(0, MAX_PASSAGE_LENGTH - (bestRange.end - bestRange.start));
  const passageStart = findWordEdge(text, bestRange.start - Math.floor(freeLength / 2));
  return [
    passageStart,
    Math.max(bestRange.end, findWordEdge(text, passageStart + MAX_PASSAGE_LENGTH)),
  ];
}

/** Returns the last space at or before an index; if no space is near, the index, but never inside a character. */
function findWordEdge(text: string, index: number): number {
  if (index <= 0) return 0;
  if (index >= text.length) return text.length;
  const spaceIndex = text.lastIndexOf(' ', index);
  if (spaceIndex > index - MAX_EDGE_SHIFT) return Math.max(0, spaceIndex);
  const isInsideSurrogatePair = /[\uDC00-\uDFFF]/.test(text.charAt(index));
  return isInsideSurrogatePair ? index - 1 : index;
}
