import { readFile } from 'node:fs/promises';
import {
  buildEmbeddingText,
  buildSearchText,
  getPlaceKeys,
  resolveListingPlace,
  type Tables,
} from '@oselya/collector/internals';
import { formatVector } from '@oselya/db';
import type { ModelClient } from '@oselya/model';
import type { Kysely } from 'kysely';

const FOLDER = new URL('../../../samples/golden/', import.meta.url);
const SOURCE = 'golden';

/** Query with the names and grades of the listings that it asks for. samples/README.md has the format. */
export type LabelledQuery = {
  query: string;
  kind: string;
  half: 'tune' | 'test';
  relevant: Readonly<Record<string, number>>;
};

type GoldenText = {
  name: string;
  payload: { title?: string; description: string };
  expected: Record<string, unknown>;
};

async function readLines<Line>(name: string): Promise<Line[]> {
  const content = await readFile(new URL(name, FOLDER), 'utf8');
  return content
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
}

export const readQueries = () => readLines<LabelledQuery>('queries.jsonl');

const readTexts = async () => {
  const texts = await readLines<GoldenText>('listings.jsonl');
  return texts.filter(({ expected }) => expected['is_listing'] !== false);
};

/** Reads the golden texts that are listings, with the facts that a reader finds in them, and their places. */
export async function readListings() {
  const texts = await readTexts();
  return texts.map(({ name, payload, expected }) => {
    const fields = createFields(payload, expected);
    const { columns, city, district } = resolveListingPlace(fields);
    return { name, state: { ...fields, city, district }, columns };
  });
}

/**
 * Stores the golden texts as listings, and embeds them.
 * @returns Names of the listings by ID.
 */
export async function storeListings(
  db: Kysely<Tables>,
  model: Pick<ModelClient, 'embed'>,
): Promise<ReadonlyMap<number, string>> {
  await db.insertInto('sources').values({ slug: SOURCE }).execute();
  const names = new Map<number, string>();
  for (const { name, state, columns } of await readListings()) {
    const { vectors, model: embedding_model } = await model.embed([
      buildEmbeddingText({ ...state, place_text: columns.place_text }),
    ]);
    const { id } = await db
      .insertInto('property_listings')
      .values({
        ...state,
        ...columns,
        ...getPlaceKeys(state),
        source_slug: SOURCE,
        external_id: name,
        attributes: '{}',
        search_text: buildSearchText(state, columns.place_text),
        embedding: formatVector(vectors[0] ?? []),
        embedding_model,
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    names.set(id, name);
  }
  return names;
}

/** Returns the columns of a listing. Of several equivalent values, the first one is stored. */
function createFields(
  { title, description }: GoldenText['payload'],
  expected: GoldenText['expected'],
) {
  const getFirst = (name: string) => [expected[name]].flat()[0];
  const getText = (name: string) => (getFirst(name) as string | undefined) ?? null;
  const getNumber = (name: string) => (getFirst(name) as number | undefined) ?? null;
  return {
    title: title ?? null,
    description,
    summary: null,
    language: getText('language'),
    deal_type: getText('deal_type') as 'sale' | 'rent' | 'daily_rent' | null,
    property_type: getText('property_type'),
    price: getNumber('price'),
    currency: getText('currency'),
    city: getText('city'),
    district: getText('district'),
    address: getText('address'),
    rooms: getNumber('rooms'),
    area_total: getNumber('area_total'),
    floor: getNumber('floor'),
    floors_total: getNumber('floors_total'),
    contact_name: getText('contact_name'),
    phones: (expected['phones'] as string[] | undefined) ?? [],
    features: [],
  };
}
