import { findPlaces, getPlace } from '../places/gazetteer.ts';
import { PROPERTY_TYPES } from '../listing/property-types.ts';
import { normalizeText } from '../text.ts';
import {
  createFactTerm,
  createNearAreaTerms,
  createPhoneTerms,
  extractPhones,
  findFacts,
  normalizeNumbers,
} from './fact-terms.ts';
import { extractLimits, type QueryLimits, spellOutAmounts } from './query-limits.ts';
import { STOP_WORDS, stemKey, stemWord } from './stems.ts';
import { SYNONYM_GROUPS } from './synonyms.ts';

/** Alternative terms of one word or phrase of a query. A listing matches the group if it has one of them. */
export type TermGroup = {
  /** Words of the query, normalized. */
  text: string;
  /** Operands of a `tsquery`: quoted terms, and phrases of them. */
  operands: string[];
  /** Stems to look up in the vocabulary; empty if the group is a fact or has synonyms. */
  stems: string[];
  /** Beginning of words in the vocabulary, if the user may still be typing the word. */
  prefix: string | undefined;
};

/** Analysis of a query: its words, limits and places. */
export type QueryAnalysis = {
  /** A listing that matches all groups is meant. Empty if the query has no words. */
  groups: TermGroup[];
  limits: QueryLimits;
  /** IDs of the places that each place name may mean. */
  placeIds: number[][];
};

/** Words of a query that say nothing of the home itself. */
const VAGUE_WORDS = new Set(
  (
    'хочу шукаю ищу потрібна потрібен потрібно нужна нужен нужно треба де где який яка яку какой какая свій своїм свой своей ' +
    'дешево недорого недорога недорогий недорогая недорогой дешева дешевая дешевый дешевий бюджетно cheap cheaply inexpensive affordable ' +
    'відкрити открыть оставить залишити поставити поставить looking look need want wanted open where some any good гарна гарний хорошая хороший лише тільки только only самой самый самий place location'
  ).split(' '),
);

const SALE_OPERAND = "'@sale'";

const quote = (term: string) => `'${term}'`;

/** Stems of a phrase by the key of its words, and the operands of its synonyms. */
const SYNONYMS = new Map<string, Set<string>>();
const MAX_PHRASE_WORDS = 3;

for (const line of SYNONYM_GROUPS) {
  const [words = '', foundWords] = line.split(' > ');
  const operands = `${words} ${foundWords ?? ''}`
    .split(' ')
    .filter(Boolean)
    .flatMap(createOperands);
  for (const word of words.split(' ').filter((entry) => !entry.startsWith('@'))) {
    for (const key of createPhraseKeys(word.split('_').map(normalizeText))) {
      const synonyms = SYNONYMS.get(key) ?? new Set();
      for (const operand of operands) synonyms.add(operand);
      SYNONYMS.set(key, synonyms);
    }
  }
}

function createOperands(entry: string): string[] {
  if (entry.startsWith('@')) return [quote(entry)];
  return createPhrases(entry.split('_').map(normalizeText));
}

/** Returns the operands of a phrase, one for each combination of stems. */
function createPhrases(words: readonly string[]): string[] {
  // Texts keep the positions of stop words, but not the words.
  let operator = '';
  let distance = 0;
  const parts = words.flatMap((word, index) => {
    distance += 1;
    if (STOP_WORDS.has(word) && index > 0 && words.length > 1) return [];
    operator = index === 0 ? '' : ` <${distance}> `;
    distance = 0;
    return { operator, stems: stemWord(word) };
  });
  return parts.reduce<string[]>(
    (phrases, part) =>
      phrases.flatMap((phrase) =>
        part.stems.map((stem) => `${phrase}${part.operator}${quote(stem)}`),
      ),
    [''],
  );
}

/** Returns the stems of the words of a phrase, joined by spaces, in each language. */
function createPhraseKeys(words: readonly string[]): string[] {
  const keys = words
    .map((word) => stemWord(word))
    .reduce<string[]>(
      (phrases, stems) => phrases.flatMap((phrase) => stems.map((stem) => `${phrase} ${stem}`)),
      [''],
    );
  return keys.map((key) => key.trimStart());
}

/**
 * Analyzes a query: words and phrases with their synonyms in three languages, places, facts such as rooms and floors,
 * phones, and limits of price and area.
 */
export function analyzeQuery(query: string): QueryAnalysis {
  const { phones, rest } = extractPhones(query);
  const { limits, rest: restOfLimits } = extractLimits(normalizeNumbers(spellOutAmounts(rest)));
  const placeIds: number[][] = [];
  const groups: TermGroup[] = phones.map((phone) =>
    createFactGroup(phone, createPhoneTerms(phone).slice(0, 1)),
  );
  let position = 0;
  const addWords = (text: string, isEnd: boolean): void => {
    const words = text.split(' ').filter((word) => word !== '');
    const lastWord = isEnd && /[\p{L}\p{Nd}]$/u.test(query) ? words.at(-1) : undefined;
    groups.push(...createWordGroups(words, lastWord, placeIds));
  };
  for (const { start, end, terms } of findFacts(restOfLimits)) {
    addWords(restOfLimits.slice(position, start), false);
    groups.push(createFactGroup(restOfLimits.slice(start, end), terms.flatMap(widenArea)));
    position = end;
  }
  addWords(restOfLimits.slice(position), true);
  const hasPrice = limits.price_min !== undefined || limits.price_max !== undefined;
  const isSale = groups.some(({ operands }) => operands.includes(SALE_OPERAND));
  // Homes are sold for dollars. Rents are in hryvnias, the default of searches.
  if (hasPrice && isSale) limits.currency ??= 'USD';
  const wordGroups = groups.filter(({ text }) => !STOP_WORDS.has(text));
  const meaningfulGroups = wordGroups.filter(({ text }) => !VAGUE_WORDS.has(text));
  return { groups: meaningfulGroups.length > 0 ? meaningfulGroups : wordGroups, limits, placeIds };
}

const AREA_TERM_PATTERN = /^@area(\d+)$/;

function widenArea(term: string): string[] {
  const area = AREA_TERM_PATTERN.exec(term)?.[1];
  return area === undefined ? [term] : createNearAreaTerms(Number(area));
}

const createFactGroup = (text: string, terms: readonly string[]): TermGroup => ({
  text,
  operands: terms.map(quote),
  stems: [],
  prefix: undefined,
});

function createWordGroups(
  words: readonly string[],
  lastWord: string | undefined,
  placeIds: number[][],
): TermGroup[] {
  const groups: TermGroup[] = [];
  for (let index = 0; index < words.length;) {
    const rest = words.slice(index, index + MAX_PHRASE_WORDS);
    const word = rest[0] ?? '';
    const phrase = findPhrase(rest);
    const place = findPlace(rest);
    const length = Math.max(1, phrase.length, place.length);
    if (place.ids.length > 0 && place.length === length) placeIds.push(place.ids);
    const placeOperands = place.length === length ? place.ids.flatMap(createPlaceOperands) : [];
    const synonyms = phrase.length === length ? phrase.operands : [];
    const stems = length === 1 ? [...stemWord(word)] : [];
    groups.push({
      text: rest.slice(0, length).join(' '),
      operands: preferFact([...new Set([...placeOperands, ...stems.map(quote), ...synonyms])]),
      stems: placeOperands.length + synonyms.length === 0 ? stems : [],
      prefix: word === lastWord && index === words.length - 1 ? stemKey(word) : undefined,
    });
    index += length;
  }
  return groups;
}

/** A listing may name a place in its text alone, in any language. */
function createPlaceOperands(id: number): string[] {
  const names = Object.values(getPlace(id)?.names ?? {});
  const words = names.map((name) => normalizeText(name).split(' '));
  return [
    quote(createFactTerm('place', id)),
    ...words.filter(({ length }) => length <= MAX_PHRASE_WORDS).flatMap(createPhrases),
  ];
}

const TYPE_OPERANDS = PROPERTY_TYPES.map((type) => quote(createFactTerm(type)));

/** Matches listings of the type, and listings without a type whose text has the word: "house" is in the texts of many flats. */
function preferFact(operands: string[]): string[] {
  const type = TYPE_OPERANDS.find((operand) => operands.includes(operand));
  if (type === undefined) return operands;
  const words = operands.filter((operand) => operand !== type).join(' | ');
  const otherTypes = TYPE_OPERANDS.filter((operand) => operand !== type).join(' | ');
  return [type, `(${words}) & !(${otherTypes})`];
}

/** Finds the longest phrase with synonyms at the beginning of the words. */
function findPhrase(words: readonly string[]): { length: number; operands: string[] } {
  for (let length = words.length; length > 0; length -= 1) {
    const operands = createPhraseKeys(words.slice(0, length)).flatMap((key) => [
      ...(SYNONYMS.get(key) ?? []),
    ]);
    if (operands.length > 0) return { length, operands };
  }
  return { length: 0, operands: [] };
}

/** Shorter words are more often the beginning of another word. */
const MIN_PLACE_LENGTH = 4;

/** Finds the longest place name at the beginning of the words. */
function findPlace(words: readonly string[]): { length: number; ids: number[] } {
  for (let length = words.length; length > 0; length -= 1) {
    const name = words.slice(0, length).join(' ');
    const isName =
      name.length >= MIN_PLACE_LENGTH &&
      !/\d/.test(name) &&
      !STOP_WORDS.has(words[0] ?? '') &&
      !STOP_WORDS.has(words[length - 1] ?? '');
    const places = isName ? findPlaces(name) : [];
    if (places.length > 0) return { length, ids: places.map(({ id }) => id) };
  }
  return { length: 0, ids: [] };
}
