import { ORDERS } from '@oselya/collector/internals';
import { createRandom, type Random } from '../listings/random.ts';
import { createVectorGenerator, type VectorGenerator } from '../listings/vector.ts';
import { CITIES, getWord } from '../listings/words.ts';

/** Kinds of search that rank listings, as in the paths of the API. */
export const RANKED_KINDS = ['fulltext', 'similar', 'hybrid'] as const;
export type RankedKind = (typeof RANKED_KINDS)[number];

/** All kinds of search. */
export const KINDS = [...RANKED_KINDS, 'browse', 'facets', 'points'] as const;
export type Kind = (typeof KINDS)[number];

const WORD_KINDS: ReadonlySet<Kind> = new Set(['fulltext', 'hybrid']);

/** Orders of browsing. Distances would need a filter of their own. */
const BROWSE_ORDERS = ORDERS.filter((order) => order !== 'distance');
/** Degrees from the centre of a map to its sides, by zoom level: a map of 1,000 × 700 pixels. */
const MAP_SIDES = { 7: [2.5, 5.5], 11: [0.16, 0.34] } as const;

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
  /** Undefined for searches without words. */
  breadth: Breadth | undefined;
  filter: string;
  query?: string;
  embedding?: number[];
  /** Fields of the request that are not in other kinds of search. */
  options?: object;
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
export function createQuestions<Of extends Kind>(
  kind: Of,
  { count, seed, dimensions }: { count: number; seed: number; dimensions: number },
): (Question & { kind: Of })[] {
  const vectorGenerator = createVectorGenerator(dimensions);
  const filters = Object.keys(FILTERS);
  return Array.from({ length: count }, (_, index) => {
    const random = createRandom(seed, index);
    const filter = filters[index % filters.length] ?? 'none';
    const cycle = Math.floor(index / filters.length);
    const breadth = WORD_KINDS.has(kind) ? BREADTHS[cycle % BREADTHS.length] : undefined;
    return {
      kind,
      breadth,
      filter,
      filters: random.pick(FILTERS[filter] ?? [{}]),
      ...(breadth !== undefined && { query: createWords(breadth, random) }),
      ...(kind === 'similar' && { embedding: createVector(vectorGenerator, random) }),
      ...(kind === 'browse' && { options: { sort: BROWSE_ORDERS[cycle % BROWSE_ORDERS.length] } }),
      ...(kind === 'points' && { options: createMap(random) }),
    };
  });
}

/** Returns a map of a random city, or of the land around it. */
function createMap(random: Random): object {
  const { latitude, longitude } = random.pick(CITIES);
  const zoom = random.pick([7, 11] as const);
  const [height, width] = MAP_SIDES[zoom];
  const bbox = [longitude - width, latitude - height, longitude + width, latitude + height];
  return { zoom, bbox };
}

/** Returns the body of a search request. */
export function createBody({ query, embedding, options, filters }: Question): object {
  return { ...filters, ...options, ...(query && { query }), ...(embedding && { embedding }) };
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
