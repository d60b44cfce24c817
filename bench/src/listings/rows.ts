import { normaliseText, buildSearchText } from '@oselya/collector/internals';
import { type Generator, createListing } from './listing.ts';
import { createRandom } from './random.ts';
import { createVectors, type Vectors } from './vector.ts';

/** The columns of `property_listings` that the rows of `listingRow` have. */
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

/** The model that the vectors are said to be of. */
export const EMBEDDING_MODEL = 'bench';

/** A salt for the series that vectors are made from, so that they share nothing with the words. */
const VECTOR_SEED = 0x5eed;

/** The vector of the listing at a place; that of a copy is that of its original. */
function listingVector(
  vectors: Vectors,
  { seed }: Generator,
  { nth, copyOf }: { nth: number; copyOf: number | null },
): Int16Array {
  return vectors.of(createRandom(seed ^ VECTOR_SEED, copyOf ?? nth));
}

/** Makes the function that gives the row at a place of the sequence, as the pipeline would store it. */
export function listingRows(generator: Generator, dimensions: number): (nth: number) => string {
  const vectors = createVectors(dimensions);
  return (nth) => {
    const listing = createListing(generator, nth);
    const vector = listingVector(vectors, generator, { nth, copyOf: listing.copy_of });
    const values = {
      ...listing,
      city_key: normaliseText(listing.city),
      phones: arrayText(listing.phones),
      features: arrayText(listing.features),
      search_text: buildSearchText({ ...listing, summary: null }),
      embedding: `[${vector.join(',')}]`,
      embedding_model: EMBEDDING_MODEL,
    };
    return copyRow(COLUMNS.map((column) => values[column]));
  };
}

/**
 * A row as `copy … from` reads it: columns parted by tabs, and what would be read as something else written
 * with backslashes. "PostgreSQL documentation, COPY, Text Format".
 */
export function copyRow(columns: readonly (string | number | null)[]): string {
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

/** A list of texts as PostgreSQL reads an array. */
export function arrayText(items: readonly string[]): string {
  return `{${items.map((item) => `"${item.replaceAll(/["\\]/g, String.raw`\$&`)}"`).join(',')}}`;
}
