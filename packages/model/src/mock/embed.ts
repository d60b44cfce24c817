import { conceptsOf } from './concepts.ts';
import { clean, fold } from './fold.ts';

const MAX_TEXT = 20_000;
const MAX_WORDS = 3_000;
const GRAM = 3;

/**
 * How much of a vector each family of tokens makes up, whatever the length of the text: a concept says
 * more than the word it was found by, and a word more than its parts.
 */
const SHARE = { concept: 0.8, word: 0.5, gram: 0.33 };

/** What and where says more about a listing than anything else it mentions. */
const KEY_CONCEPT =
  /^(?:city|district):|_rooms?$|^(?:rent|sale|daily|house|land|garage|commercial)$/;
const KEY_WEIGHT = 2;

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

/** Adds a family's tokens, hashed, so that together they have the given length. */
function addFamily(vector: number[], tokens: Map<string, number>, share: number): void {
  const length = Math.hypot(...tokens.values());
  for (const [token, weight] of tokens) {
    const at = fnv1a(token) % vector.length;
    const sign = fnv1a(`±${token}`) & 1 ? 1 : -1;
    vector[at] = (vector[at] ?? 0) + (sign * weight * share) / length;
  }
}

function unit(vector: number[]): number[] {
  const length = Math.hypot(...vector);
  // Without a direction of its own (no words, or words that cancel out) the text gets a fixed one.
  if (length < Number.EPSILON) return vector.map((_, at) => (at === 0 ? 1 : 0));
  return vector.map((value) => value / length);
}

/** Counts tokens; one that occurs ten times weighs about three times as much as one that occurs once. */
function counted(tokens: string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const token of tokens) counts.set(token, (counts.get(token) ?? 0) + 1);
  return new Map([...counts].map(([token, count]) => [token, Math.sqrt(count)]));
}

/**
 * A vector for a text, so that related texts are near by cosine: hashed words, their character
 * trigrams, and concepts that are the same in Ukrainian, Russian and English. Deterministic.
 *
 * @param dimensions How many numbers the vector has.
 * @returns A vector of length 1, never with a NaN.
 * @throws RangeError when `dimensions` is not a positive whole number.
 */
export function embedText(text: string, dimensions: number): number[] {
  if (!Number.isInteger(dimensions) || dimensions < 1) {
    throw new RangeError(`dimensions must be a positive whole number, not ${dimensions}.`);
  }
  const folded = fold(clean(text, MAX_TEXT));
  const words = (folded.match(/[\p{L}\p{N}]+/gu) ?? []).slice(0, MAX_WORDS);
  const concepts = conceptsOf(folded).map((concept): [string, number] => [
    `concept:${concept}`,
    KEY_CONCEPT.test(concept) ? KEY_WEIGHT : 1,
  ]);
  const vector = Array.from({ length: dimensions }, () => 0);
  addFamily(vector, new Map(concepts), SHARE.concept);
  addFamily(vector, counted(words.map((word) => `word:${word}`)), SHARE.word);
  addFamily(vector, counted(words.flatMap(gramsOf).map((gram) => `gram:${gram}`)), SHARE.gram);
  return unit(vector);
}
