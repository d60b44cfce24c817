import { findPlaces } from './places.ts';
import { clean, compileTable, fold, readTable } from './text.ts';

/** Concepts with the beginnings of their words in Ukrainian, Russian and English. */
const CONCEPT_PATTERNS = compileTable(readTable('concepts'));

const MAX_TEXT_LENGTH = 20_000;
const MAX_WORDS = 3_000;
const TRIGRAM_LENGTH = 3;

/** Pattern of concepts for the place, rooms, deal and property type, which weigh more than other concepts. */
const KEY_CONCEPT_PATTERN =
  /^(?:city|district):|_rooms?$|^(?:rent|sale|daily|house|land|garage|commercial)$/;

/** Returns a 32-bit hash of a string's UTF-16 code units, based on FNV-1a. */
function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  // Mix in the high bits, because the low bits of FNV-1a are poorly distributed for short inputs.
  return (hash ^ (hash >>> 15)) >>> 0;
}

function splitIntoTrigrams(word: string): string[] {
  const paddedWord = `<${word}>`;
  return Array.from({ length: paddedWord.length - TRIGRAM_LENGTH + 1 }, (_, index) =>
    paddedWord.slice(index, index + TRIGRAM_LENGTH),
  );
}

/** Adds hashed tokens to a vector, with their weights scaled to the Euclidean norm `share`. */
function addTokens(vector: number[], tokens: Map<string, number>, share: number): void {
  const length = Math.hypot(...tokens.values());
  for (const [token, weight] of tokens) {
    const index = fnv1a(token) % vector.length;
    const sign = fnv1a(`±${token}`) & 1 ? 1 : -1;
    vector[index] = (vector[index] ?? 0) + (sign * weight * share) / length;
  }
}

/** Returns token weights: the square root of each token's count. */
function weighTokens(tokens: string[]): Map<string, number> {
  const groups = Map.groupBy(tokens, (token) => token);
  return new Map([...groups].map(([token, { length }]) => [token, Math.sqrt(length)]));
}

/**
 * Embeds text so that related texts have a high cosine similarity. The vector combines hashed words, character
 * trigrams, and concepts shared by Ukrainian, Russian and English. The same text always gets the same unit vector.
 * @param dimensions Number of elements of the vector.
 */
export function embedText(text: string, dimensions: number): number[] {
  const foldedText = fold(clean(text, MAX_TEXT_LENGTH));
  const words = (foldedText.match(/[\p{L}\p{N}]+/gu) ?? []).slice(0, MAX_WORDS);
  const namedConcepts = CONCEPT_PATTERNS.filter(
    ([, pattern]) => foldedText.search(pattern) >= 0,
  ).map(([name]) => name);
  const concepts = [...namedConcepts, ...findPlaces(foldedText)].map(
    (concept): [string, number] => [
      `concept:${concept}`,
      KEY_CONCEPT_PATTERN.test(concept) ? 2 : 1,
    ],
  );
  const vector = Array.from({ length: dimensions }, () => 0);
  // Concepts weigh more than words, and words more than trigrams.
  addTokens(vector, new Map(concepts), 0.8);
  addTokens(vector, weighTokens(words.map((word) => `word:${word}`)), 0.5);
  const grams = words.flatMap(splitIntoTrigrams).map((gram) => `gram:${gram}`);
  addTokens(vector, weighTokens(grams), 0.33);
  const length = Math.hypot(...vector);
  // A text without words, or whose words cancel out, has no direction, so it gets a fixed one.
  if (length < Number.EPSILON) return vector.map((_, index) => (index === 0 ? 1 : 0));
  return vector.map((value) => value / length);
}
