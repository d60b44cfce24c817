import { open } from 'node:fs/promises';
import { createStems, resolveListingPlace } from '@oselya/collector/internals';
import pg from 'pg';
import { createListing } from '../listings/listing.ts';
import { createRandom } from '../listings/random.ts';
import { createVectorGenerator } from '../listings/vector.ts';
import { DIMENSIONS } from '../search/stack.ts';
import { type Document, type DocumentFiles, NEW_PREFIX, type STEM_FIELDS } from './documents.ts';

type Listing = Parameters<typeof createStems>[0] & { external_id: string };

const FIELD_BY_WEIGHT: Record<string, keyof typeof STEM_FIELDS> = {
  A: 'title',
  B: 'facts',
  D: 'body',
};

/**
 * Returns a term as a word of letters and digits, which every engine indexes unchanged: "@rooms2" becomes "zzrooms2".
 * Terms with other characters become empty.
 */
export function toToken(term: string): string {
  const token = term.replace(/^@/, 'zz').replaceAll('_', '');
  return /^[\p{L}\p{Nd}]+$/u.test(token) ? token : '';
}

/**
 * Returns a listing as the peers store it.
 * @param stems Stems as the literal of a `tsvector`, if they are known.
 */
export function toDocument(id: number, listing: Listing, stems = createStems(listing)): Document {
  const { external_id, title, description, address, floor } = listing;
  const { city, deal_type, property_type, currency, price, rooms, area_total } = listing;
  const hit = { id, external_id, title, description, address, floor, city, price, currency, rooms };
  return {
    id,
    external_id,
    ...splitStems(stems),
    city: city ?? '',
    deal_type: deal_type ?? '',
    property_type: property_type ?? '',
    currency: currency ?? '',
    price: price ?? -1,
    rooms: rooms ?? -1,
    area: area_total ?? -1,
    listing: JSON.stringify(hit),
  };
}

/** Returns the terms of a `tsvector` by field, in the order of the text. */
function splitStems(literal: string): Record<keyof typeof STEM_FIELDS, string> {
  const entries: Record<keyof typeof STEM_FIELDS, [number, string][]> = {
    title: [],
    facts: [],
    body: [],
  };
  for (const [, term = '', positions = ''] of literal.matchAll(/'([^']+)':(\S+)/g)) {
    // The terms that repeat those of the title for an index begin with a mark, and are no tokens.
    const token = toToken(term);
    if (token === '') continue;
    for (const position of positions.split(','))
      entries[FIELD_BY_WEIGHT[position.at(-1) ?? ''] ?? 'body'].push([
        Number.parseInt(position, 10),
        token,
      ]);
  }
  return { title: join(entries.title), facts: join(entries.facts), body: join(entries.body) };
}

const join = (field: [position: number, token: string][]): string =>
  field
    .toSorted(([a], [b]) => a - b)
    .map(([, token]) => token)
    .join(' ');

/** Writes documents, and vectors in the same order. */
export async function writeDocuments(
  { documents, vectors }: DocumentFiles,
  batches: AsyncIterable<{ document: Document; vector: readonly number[] }[]>,
): Promise<void> {
  await using documentFile = await open(documents, 'w');
  await using vectorFile = await open(vectors, 'w');
  for await (const batch of batches) {
    await documentFile.write(batch.map(({ document }) => `${JSON.stringify(document)}\n`).join(''));
    await vectorFile.write(Float32Array.from(batch.flatMap(({ vector }) => vector)));
  }
}

const BATCH_SIZE = 1000;

type Row = Listing & { id: string; stems: string | null; embedding: string };

/** Reads the listings of a database of generated listings with their stems and vectors, in batches. */
export async function* readListings(databaseUrl: string) {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    for (let lastId = 0; ;) {
      const { rows } = await client.query<Row>(
        `select listed.id, external_id, title, description, address, listed.floor, listed.city, listed.deal_type,
           listed.property_type, listed.price::float8, listed.currency, listed.rooms, listed.area_total::float8,
           listed.place_path, place_text, listed.district, listed.floors_total, phones, listed.features,
           indexed.stems::text, listed.embedding::text
         from property_listings as listed left join listing_index as indexed using (id)
         where listed.id > $1 order by listed.id limit ${BATCH_SIZE}`,
        [lastId],
      );
      if (rows.length === 0) return;
      lastId = Number(rows.at(-1)?.id);
      yield rows.map((row) => ({
        document: toDocument(Number(row.id), row, row.stems || undefined),
        vector: JSON.parse(row.embedding) as number[],
      }));
    }
  } finally {
    await client.end();
  }
}

const NEW_SEED = 77;

/** Returns a new listing for each number, with a word and an external ID that no other listing has. */
export function createNewDocument(number: number): { document: Document; word: string } {
  const generated = createListing({ seed: NEW_SEED }, number);
  const random = createRandom(NEW_SEED + process.pid, number);
  const word = `zoro${Array.from({ length: 8 }, () => random.pick(['ba', 'du', 'ki', 'mo'])).join('')}`;
  const listing = {
    ...generated,
    ...resolveListingPlace(generated).columns,
    external_id: `${NEW_PREFIX}${process.pid}-${number}`,
    description: `${generated.description} ${word}`,
  };
  const vector = createVectorGenerator(DIMENSIONS).next(random);
  // Larger than the IDs of all other listings.
  const document = { ...toDocument(1e9 + number, listing), vector: Array.from(vector) };
  return { document, word };
}
