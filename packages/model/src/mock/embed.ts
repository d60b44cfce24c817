import { conceptsOf } from './concepts.ts';
import { clean, fold } from './fold.ts';

const MAX_TEXT = 20_000;
const MAX_WORDS = 3_000;
const GRAM = 3;

/** A concept says more than the word it was found by, and a word more than its parts. */
const WEIGHT = { concept: 3, word: 1, gram: 0.25 };

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** The 32-bit FNV-1a hash of a text's UTF-16 units. */
function fnv1a(text: string): number {
  let hash = FNV_OFFSET;
  for (let at = 0; at < text.length; at += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(at), FNV_PRIME);
  }
  // The low bits of FNV-1a are weak for short inputs; folding the high ones in evens them out.
  return (hash ^ (hash >>> 15)) >>> 0;
}

function gramsOf(word: string): string[] {
  const padded = `<${word}>`;
  const grams: string[] = [];
  for (let at = 0; at + GRAM <= padded.length; at += 1) grams.push(padded.slice(at, at + GRAM));
  return grams;
}

function unit(dimensions: number, counts: Map<string, number>): number[] {
  const vector = Array.from({ length: dimensions }, () => 0);
  for (const [token, weight] of counts) {
    const hash = fnv1a(token);
    const at = hash % dimensions;
    const sign = fnv1a(`±${token}`) & 1 ? 1 : -1;
    vector[at] = (vector[at] ?? 0) + sign * weight;
  }
  const length = Math.hypot(...vector);
  // Without a direction of its own (no words, or words that cancel out) the text gets a fixed one.
  if (length < Number.EPSILON) return vector.map((_, at) => (at === 0 ? 1 : 0));
  return vector.map((value) => value / length);
}

/**
 * A vector for a text, so that related texts are near by cosine: hashed words, their character
 * trigrams, and concepts that are the same in Ukrainian, Russian and English. Deterministic.
 *
 * @param dimensions how many numbers the vector has
 * @returns a vector of length 1, never with a NaN
 * @throws RangeError when `dimensions` is not a positive whole number
 */
export function embedText(text: string, dimensions: number): number[] {
  if (!Number.isInteger(dimensions) || dimensions < 1) {
    throw new RangeError(`dimensions must be a positive whole number, not ${dimensions}.`);
  }
  const folded = fold(clean(text, MAX_TEXT));
  const words = (folded.match(/[\p{L}\p{N}]+/gu) ?? []).slice(0, MAX_WORDS);
  const counts = new Map<string, number>();
  const add = (token: string, weight: number): void => {
    counts.set(token, (counts.get(token) ?? 0) + weight);
  };
  for (const word of words) {
    add(`word:${word}`, WEIGHT.word);
    for (const gram of gramsOf(word)) add(`gram:${gram}`, WEIGHT.gram);
  }
  // A word said ten times weighs about three times as much as one said once.
  for (const [token, weight] of counts) counts.set(token, Math.sqrt(weight));
  for (const concept of conceptsOf(folded)) add(`concept:${concept}`, WEIGHT.concept);
  return unit(dimensions, counts);
}
