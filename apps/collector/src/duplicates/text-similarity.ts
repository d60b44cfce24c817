/** The words of an advertisement say who wrote it within so many characters. */
export const TEXT_LENGTH = 4000;

/** Texts with fewer pairs of words are alike by chance. */
const MIN_PAIRS = 8;

/**
 * How alike two texts are, from 0 to 1: which share of their pairs of neighbouring words both have (Dice's
 * coefficient). Undefined where one of them is too short to tell.
 * @param one As the search normaliser writes it: words with one space between.
 */
export function textSimilarity(one: string, other: string): number | undefined {
  const [pairs, others] = [wordPairs(one), wordPairs(other)];
  if (Math.min(pairs.size, others.size) < MIN_PAIRS) return undefined;
  return (2 * pairs.intersection(others).size) / (pairs.size + others.size);
}

function wordPairs(text: string): Set<string> {
  const words = text.slice(0, TEXT_LENGTH).split(' ');
  return new Set(words.slice(1).map((word, nth) => `${words[nth]} ${word}`));
}
