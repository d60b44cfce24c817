import { type TestDatabase } from '@oselya/testing/database';
import type { Insertable } from 'kysely';
import type { Tables } from '../../src/tables.ts';
import type { DuplicatePair } from '../../src/duplicates/groups.ts';
import { updatePairs, claimMarks } from '../../src/duplicates/duplicates.ts';
import { normaliseText } from '../../src/text.ts';

type Db = TestDatabase<Tables>['db'];

type Facts = Partial<Insertable<Tables['property_listings']>>;

let made = 0;

/** Facts of a flat; two listings with them are one property. */
export const FLAT = {
  deal_type: 'sale',
  city: 'Львів',
  city_key: 'львів',
  rooms: 2,
  area_total: 54.3,
  floor: 3,
  floors_total: 5,
  price: 87_000,
  currency: 'USD',
  address: 'вул. Івана Франка, 61',
} as const;

/** Stores a listing without the pipeline, and returns its id. */
export async function addListing(db: Db, facts: Facts = FLAT): Promise<number> {
  made += 1;
  await db
    .insertInto('sources')
    .values({ slug: 'doshka' })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  const text = facts.description ?? `flat ${made}`;
  const { id } = await db
    .insertInto('property_listings')
    .values({
      source_slug: 'doshka',
      external_id: `listing-${made}`,
      description: text,
      search_text: normaliseText(text),
      phones: [],
      features: [],
      attributes: '{}',
      ...facts,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

/** Updates a listing. */
export async function change(db: Db, id: number, facts: Facts): Promise<void> {
  await db.updateTable('property_listings').set(facts).where('id', '=', id).execute();
}

/** Searches for duplicates until no listing is marked. */
export async function settle(db: Db): Promise<void> {
  for (;;) {
    const claimed = await claimMarks(db, { limit: 100, settledMs: 0, leaseMs: 60_000 });
    if (claimed.length === 0) return;
    for (const marked of claimed) await updatePairs(db, marked);
  }
}

/** Returns the group of each listing by its id. */
export async function groupsOf(db: Db): Promise<Map<number, number | null>> {
  const rows = await db
    .selectFrom('property_listings')
    .select(['id', 'duplicate_group'])
    .orderBy('id')
    .execute();
  return new Map(rows.map((row) => [row.id, row.duplicate_group]));
}

/** Returns the stored pairs. */
export async function pairsOf(db: Db): Promise<DuplicatePair[]> {
  const rows = await db
    .selectFrom('duplicate_pairs')
    .select(['low_id', 'high_id'])
    .orderBy('low_id')
    .orderBy('high_id')
    .execute();
  return rows.map((row) => [row.low_id, row.high_id]);
}
