import { createRandom, type Random } from '../listings/random.ts';
import { createVectorGenerator, type VectorGenerator } from '../listings/vector.ts';
import { getWord } from '../listings/words.ts';

/** Kinds of search, as in the paths of the API. */
export const KINDS = ['fulltext', 'similar', 'hybrid'] as const;
export type Kind = (typeof KINDS)[number];

/** Breadths of a query, by the share of listings that contain its words. */
export const BREADTHS = ['broad', 'medium', 'rare'] as const;
export type Breadth = (typeof BREADTHS)[number];

export type Filters = Readonly<Record<string, string | number>>;

/** Filters by the share of listings that match. Each share except `none` has two filters on different columns. */
export const FILTERS: Readonly<Record<string, readonly Filters[]>> = {
  none: [{}],
  '1 %': [{ city: 'Луцьк' }, { source_slug: 'source-07' }],
  '10 %': [{ city: 'Львів' }, { area_min: 35, area_max: 38.5 }],
  '50 %': [{ deal_type: 'sale' }, { rooms_min: 2, rooms_max: 3 }],
};

export type Question = {
  kind: Kind;
  /** Undefined for `similar` searches, which have no words. */
  breadth: Breadth | undefined;
  filter: string;
  query?: string;
  embedding?: number[];
  filters: Filters;
};

/** Frequency ranks of words that occur in at least 30 % of listings, in about 1 in 200, and in about 1 in 10,000. */
const RANKS: Record<Breadth, readonly [from: number, to: number]> = {
  broad: [0, 8],
  medium: [300, 900],
  rare: [20_000, 45_000],
};

/**
 * Returns questions of one kind, which cycle through the filters and breadths. About half of the queries have two
 * words. The vectors of `similar` searches belong to no listing.
 * @param dimensions Number of elements of a vector.
 */
export function createQuestions(
  kind: Kind,
  { count, seed, dimensions }: { count: number; seed: number; dimensions: number },
): Question[] {
  const vectorGenerator = createVectorGenerator(dimensions);
  const filters = Object.keys(FILTERS);
  return Array.from({ length: count }, (_, index) => {
    const random = createRandom(seed, index);
    const filter = filters[index % filters.length] ?? 'none';
    const breadth =
      kind === 'similar'
        ? undefined
        : BREADTHS[Math.floor(index / filters.length) % BREADTHS.length];
    const content =
      breadth === undefined
        ? { embedding: createVector(vectorGenerator, random) }
        : { query: createWords(breadth, random) };
    return { kind, breadth, filter, filters: random.pick(FILTERS[filter] ?? [{}]), ...content };
  });
}

/** Returns the body of a search request. */
export function createBody({ query, embedding, filters }: Question): object {
  return { ...filters, ...(query === undefined ? { embedding } : { query }) };
}

/** Returns the name of a question's group. */
export function formatGroup({ breadth, filter }: Pick<Question, 'breadth' | 'filter'>): string {
  return breadth === undefined ? `filter ${filter}` : `${breadth} words, filter ${filter}`;
}

/** Returns the vector of a text. The same text always has the same vector. */
export function createTextVector(vectorGenerator: VectorGenerator, text: string): number[] {
  const hash = Buffer.from(text).reduce((sum, byte) => Math.imul(sum, 31) + byte, 7);
  return createVector(vectorGenerator, createRandom(hash));
}

function createVector(vectorGenerator: VectorGenerator, random: Random): number[] {
  return Array.from(vectorGenerator.next(random));
}

function createWords(breadth: Breadth, random: Random): string {
  const word = ([from, to]: readonly [number, number]) => getWord('uk', random.between(from, to));
  const words = [word(RANKS[breadth])];
  if (random.chance(0.5)) words.push(word(RANKS.broad));
  return words.join(' ');
}
