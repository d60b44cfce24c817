import {
  buildSearchText,
  createStems,
  getPlaceKeys,
  resolveListingPlace,
} from '@oselya/collector/internals';
import { type Generator, createListing } from './listing.ts';
import { createRandom } from './random.ts';
import { createVectorGenerator, type VectorGenerator } from './vector.ts';

/** Columns of `property_listings` in the order of the rows. */
export const COLUMNS = [
  'source_slug',
  'external_id',
  'url',
  'title',
  'description',
  'language',
  'deal_type',
  'property_type',
  'price',
  'currency',
  'city',
  'city_key',
  'district',
  'district_key',
  'place_id',
  'place_path',
  'place_text',
  'place_status',
  'address',
  'rooms',
  'area_total',
  'area_kitchen',
  'floor',
  'floors_total',
  'latitude',
  'longitude',
  'contact_name',
  'phones',
  'features',
  'published_at',
  'search_text',
  'embedding',
  'embedding_model',
] as const;

/** Model name to store with the vectors. */
export const EMBEDDING_MODEL = 'bench';

/** Seed that makes the vectors independent of the words. */
const VECTOR_SEED = 0x5eed;

/** Returns the vector of a listing; a duplicate has the vector of its original. */
function createVector(
  vectorGenerator: VectorGenerator,
  { seed }: Generator,
  { index, copyOf }: { index: number; copyOf: number | null },
): Int16Array {
  return vectorGenerator.next(createRandom(seed ^ VECTOR_SEED, copyOf ?? index));
}

/** Returns a function that creates the row of the listing at the given index, as the pipeline would store it, and its stems. */
export function createRowFormatter(
  generator: Generator,
  dimensions: number,
): (index: number) => { row: string; stems: string } {
  const vectorGenerator = createVectorGenerator(dimensions);
  return (index) => {
    const listing = createListing(generator, index);
    const vector = createVector(vectorGenerator, generator, { index, copyOf: listing.copy_of });
    const { columns: place } = resolveListingPlace(listing);
    const values = {
      ...listing,
      ...getPlaceKeys(listing),
      ...place,
      place_path: place.place_path && `{${place.place_path.join(',')}}`,
      phones: formatArray(listing.phones),
      features: formatArray(listing.features),
      search_text: buildSearchText({ ...listing, summary: null }),
      embedding: `[${vector.join(',')}]`,
      embedding_model: EMBEDDING_MODEL,
    };
    return {
      row: formatRow(COLUMNS.map((column) => values[column])),
      stems: formatRow([createStems({ ...listing, ...place })]),
    };
  };
}

/**
 * Returns a row for `copy … from`, with separators and backslashes escaped.
 * @see "PostgreSQL documentation, COPY, Text Format"
 */
export function formatRow(columns: readonly (string | number | null)[]): string {
  const cells = columns.map((value) => {
    if (value === null) return String.raw`\N`;
    return typeof value === 'number' ? String(value) : value.replaceAll(/[\\\t\n\r]/g, escape);
  });
  return `${cells.join('\t')}\n`;
}

const ESCAPES: Record<string, string> = {
  '\\': String.raw`\\`,
  '\t': String.raw`\t`,
  '\n': String.raw`\n`,
  '\r': String.raw`\r`,
};

function escape(character: string): string {
  return ESCAPES[character] ?? character;
}

/** Formats texts as a PostgreSQL array literal. */
export function formatArray(texts: readonly string[]): string {
  return `{${texts.map((text) => `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`).join(',')}}`;
}
