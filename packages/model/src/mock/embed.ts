import { findPlaces } from './places.ts';
import { clean, compileTable, fold, readTable } from './text.ts';

/** Concepts with the beginnings of their words in Ukrainian, Russian and English. */
const CONCEPTS = compileTable(readTable('concepts'));

const MAX_TEXT = 20_000;
const MAX_WORDS = 3_000;
const GRAM = 3;

/** Matches concepts for the place, the rooms, the deal and the property type. They weigh more than other concepts. */
const KEY_CONCEPT =
  /^(?:city|district):|_rooms?$|^(?:rent|sale|daily|house|land|garage|commercial)$/;

/** Returns the 32-bit FNV-1a hash of the UTF-16 code units of a text. */
function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  // The low bits of FNV-1a are poorly distributed for short inputs, so the high bits are mixed in.
  return (hash ^ (hash >>> 15)) >>> 0;
}

function splitIntoTrigrams(word: string): string[] {
  const padded = `<${word}>`;
  return Array.from({ length: padded.length - GRAM + 1 }, (_, at) => padded.slice(at, at + GRAM));
}

/** Adds hashed tokens to a vector. The sum of their squared weights is `share` squared. */
function addTokens(vector: number[], tokens: Map<string, number>, share: number): void {
  const length = Math.hypot(...tokens.values());
  for (const [token, weight] of tokens) {
    const at = fnv1a(token) % vector.length;
    const sign = fnv1a(`±${token}`) & 1 ? 1 : -1;
    vector[at] = (vector[at] ?? 0) + (sign * weight * share) / length;
  }
}

/** Returns the weight of each token: the square root of its number of occurrences. */
function weighTokens(tokens: string[]): Map<string, number> {
  const groups = Map.groupBy(tokens, (token) => token);
  return new Map([...groups].map(([token, { length }]) => [token, Math.sqrt(length)]));
}

/**
 * Embeds a text so that related texts have a high cosine similarity. The vector combines hashed words, character
 * trigrams, and concepts shared by Ukrainian, Russian and English. Equal texts get equal vectors of length 1.
 * @param dimensions Number of elements of the vector.
 */
export function embedText(text: string, dimensions: number): number[] {
  const folded = fold(clean(text, MAX_TEXT));
  const words = (folded.match(/[\p{L}\p{N}]+/gu) ?? []).slice(0, MAX_WORDS);
  const named = CONCEPTS.filter(([, pattern]) => folded.search(pattern) >= 0).map(([name]) => name);
  const concepts = [...named, ...findPlaces(folded)].map((concept): [string, number] => [
    `concept:${concept}`,
    KEY_CONCEPT.test(concept) ? 2 : 1,
  ]);
  const vector = Array.from({ length: dimensions }, () => 0);
  // Concepts weigh more than words, and words more than trigrams.
  addTokens(vector, new Map(concepts), 0.8);
  addTokens(vector, weighTokens(words.map((word) => `word:${word}`)), 0.5);
  const grams = words.flatMap(splitIntoTrigrams).map((gram) => `gram:${gram}`);
  addTokens(vector, weighTokens(grams), 0.33);
  const length = Math.hypot(...vector);
  // A text without words, or whose words cancel out, has no direction, so it gets a fixed one.
  if (length < Number.EPSILON) return vector.map((_, at) => (at === 0 ? 1 : 0));
  return vector.map((value) => value / length);
}
