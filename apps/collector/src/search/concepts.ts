import { PROPERTY_TYPES } from '../listing/property-types.ts';
import { normalizeText } from '../text.ts';
import { createFactTerm } from './fact-terms.ts';
import { STOP_WORDS, stemKey, stemQueryWord } from './stems.ts';
import { SYNONYM_GROUPS } from './synonyms.ts';

/** Terms by which listings with a meaning are found. */
export type Concept = {
  /** Operands of a `tsquery`: quoted terms, and phrases of them. */
  operands: readonly string[];
  /** Phrases of listings that have an operand, but lack its meaning, such as "no pets". */
  excluded: readonly string[];
};

/** Number of words of the longest phrase with a meaning or a place name. */
export const MAX_PHRASE_WORDS = 3;

/** Returns a term as an operand of a `tsquery`. */
export const quote = (term: string) => `'${term}'`;

/** Operands that match the listings of a property type. */
export const TYPE_OPERANDS = PROPERTY_TYPES.map((type) => quote(createFactTerm(type)));

/** Concepts by their words and phrases. */
const conceptsByText = new Map<string, Concept[]>();
/** Concepts by the stems of their words, joined by spaces. Cyrillic words of queries have no English meaning. */
const conceptsByKey = new Map<string, Concept[]>();
const conceptsByCyrillicKey = new Map<string, Concept[]>();
/** Concepts by whole words, in the letters of stems. */
const conceptsByWord: [word: string, concept: Concept][] = [];

const isCyrillic = (text: string) => /\p{Script=Cyrillic}/u.test(text);

for (const line of SYNONYM_GROUPS) {
  const entries = line.split(' ').filter((entry) => entry !== '>');
  const concept = {
    operands: entries.filter((entry) => !/^[!~]/.test(entry)).flatMap(createOperands),
    excluded: entries.flatMap((entry) => (entry.startsWith('!') ? createOperands(entry) : [])),
  };
  const [words = ''] = line.split(/ [>!]/);
  for (const entry of words.split(' ').filter((word) => !word.startsWith('@'))) {
    const phrase = readEntry(entry);
    for (const key of createPhraseKeys(phrase)) {
      addConcept(conceptsByKey, key, concept);
      if (isCyrillic(entry)) addConcept(conceptsByCyrillicKey, key, concept);
    }
    addConcept(conceptsByText, phrase.join(' '), concept);
    if (phrase.length === 1) conceptsByWord.push([stemKey(phrase[0] ?? ''), concept]);
  }
}

function addConcept(concepts: Map<string, Concept[]>, key: string, concept: Concept): void {
  const known = concepts.get(key);
  if (known === undefined) concepts.set(key, [concept]);
  else if (!known.includes(concept)) known.push(concept);
}

function readEntry(entry: string): string[] {
  return entry.replace(/^[!~]/, '').split('_').map(normalizeText);
}

function createOperands(entry: string): string[] {
  return entry.startsWith('@') ? [quote(entry)] : createPhrases(readEntry(entry));
}

/** Returns the operands of a phrase, one for each combination of stems. */
export function createPhrases(words: readonly string[]): string[] {
  // Texts keep the positions of stop words, but not the words.
  let operator = '';
  let distance = 0;
  const parts = words.flatMap((word, index) => {
    distance += 1;
    if (STOP_WORDS.has(word) && index > 0 && words.length > 1) return [];
    operator = index === 0 ? '' : ` <${distance}> `;
    distance = 0;
    return { operator, stems: stemQueryWord(word) };
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
    .map(stemQueryWord)
    .reduce<string[]>(
      (phrases, stems) => phrases.flatMap((phrase) => stems.map((stem) => `${phrase} ${stem}`)),
      [''],
    );
  return keys.map((key) => key.trimStart());
}

const merge = (concepts: readonly Concept[]): Concept => ({
  operands: [...new Set(concepts.flatMap(({ operands }) => operands))],
  excluded: [...new Set(concepts.flatMap(({ excluded }) => excluded))],
});

/** Finds the longest phrase with a known meaning at the beginning of normalized words. */
export function findConcept(words: readonly string[]): Concept & { length: number } {
  for (let length = Math.min(words.length, MAX_PHRASE_WORDS); length > 0; length -= 1) {
    const phrase = words.slice(0, length);
    const concepts = isCyrillic(phrase.join('')) ? conceptsByCyrillicKey : conceptsByKey;
    // "Park" is not "parking", though both have one stem.
    const found =
      conceptsByText.get(phrase.join(' ')) ??
      createPhraseKeys(phrase).flatMap((key) => concepts.get(key) ?? []);
    if (found.length > 0) return { length, ...merge(found) };
  }
  return { length: 0, operands: [], excluded: [] };
}

/** Returns the concept of a stem. */
export const getConceptOfStem = (stem: string): Concept => merge(conceptsByKey.get(stem) ?? []);

/** Returns the concepts of all words that meet a condition, in the letters of stems. */
export const findConceptOfWords = (meets: (word: string) => boolean): Concept =>
  merge(conceptsByWord.flatMap(([word, concept]) => (meets(word) ? concept : [])));
