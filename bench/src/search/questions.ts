import { createRandom, type Random } from '../listings/random.ts';
import { createVectors, type Vectors } from '../listings/vector.ts';
import { getWord } from '../listings/words.ts';

/** The kinds of search, as the addresses of the API have them. */
export const KINDS = ['fulltext', 'similar', 'hybrid'] as const;
export type Kind = (typeof KINDS)[number];

/** Number of listings with the words of a query. */
export const BREADTHS = ['broad', 'medium', 'rare'] as const;
export type Breadth = (typeof BREADTHS)[number];

export type Filters = Readonly<Record<string, string | number>>;

/**
 * Filters by how many listings pass them: of each share one that is a fact and one that is a range or a
 * source.
 */
export const FILTERS: Readonly<Record<string, readonly Filters[]>> = {
  none: [{}],
  '1 %': [{ city: 'Луцьк' }, { source_slug: 'source-07' }],
  '10 %': [{ city: 'Львів' }, { area_min: 35, area_max: 38.5 }],
  '50 %': [{ deal_type: 'sale' }, { rooms_min: 2, rooms_max: 3 }],
};

/** A search, and what group of searches it belongs to. */
export type Question = {
  kind: Kind;
  /** Of `similar` searches undefined: they have no words. */
  breadth: Breadth | undefined;
  filter: string;
  query?: string;
  embedding?: number[];
  filters: Filters;
};

/** Ranks of words by frequency: in most listings, in one of a hundred, in one of ten thousand. */
const RANKS: Record<Breadth, readonly [from: number, to: number]> = {
  broad: [0, 8],
  medium: [300, 900],
  rare: [20_000, 45_000],
};

/**
 * Searches of a kind, the groups taking turns. Every other one has two words; of `similar` ones each has a
 * vector that no listing has.
 * @param dimensions Of the vectors.
 */
export function createQuestions(
  kind: Kind,
  { count, seed, dimensions }: { count: number; seed: number; dimensions: number },
): Question[] {
  const vectors = createVectors(dimensions);
  const filters = Object.keys(FILTERS);
  return Array.from({ length: count }, (_, nth) => {
    const random = createRandom(seed, nth);
    const filter = filters[nth % filters.length] ?? 'none';
    const breadth =
      kind === 'similar' ? undefined : BREADTHS[Math.floor(nth / filters.length) % BREADTHS.length];
    const what =
      breadth === undefined
        ? { embedding: vectorOf(vectors, random) }
        : { query: wordsOf(breadth, random) };
    return { kind, breadth, filter, filters: random.pick(FILTERS[filter] ?? [{}]), ...what };
  });
}

/** Creates the body of a search request. */
export function createBody({ query, embedding, filters }: Question): object {
  return { ...filters, ...(query === undefined ? { embedding } : { query }) };
}

/** Formats the name of a group. */
export function formatGroup({ breadth, filter }: Pick<Question, 'breadth' | 'filter'>): string {
  return breadth === undefined ? `filter ${filter}` : `${breadth} words, filter ${filter}`;
}

/** The vector that the model server gives for a text. */
export function vectorOfText(vectors: Vectors, text: string): number[] {
  const hash = Buffer.from(text).reduce((sum, byte) => Math.imul(sum, 31) + byte, 7);
  return vectorOf(vectors, createRandom(hash));
}

function vectorOf(vectors: Vectors, random: Random): number[] {
  return Array.from(vectors.of(random));
}

function wordsOf(breadth: Breadth, random: Random): string {
  const word = ([from, to]: readonly [number, number]) => getWord('uk', random.between(from, to));
  const words = [word(RANKS[breadth])];
  if (random.chance(0.5)) words.push(word(RANKS.broad));
  return words.join(' ');
}
