import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { findPropertyType, PROPERTY_TYPES } from './property-types.ts';

const BATCH_SIZE = 500;

/** Without parameters, so that the planner uses the index of migration 0031. */
const isUnresolved = sql<boolean>`property_type not in (${sql.join(PROPERTY_TYPES.map((type) => sql.lit(type)))})`;

/**
 * Resolves property types that an earlier version stored as written, in batches until the signal aborts. The word is kept
 * in `property_type_text`.
 * @returns The number of changed listings.
 */
export async function resolveStoredTypes(db: Kysely<Tables>, signal: AbortSignal): Promise<number> {
  let changedCount = 0;
  while (!signal.aborted) {
    const rows = await db
      .selectFrom('property_listings')
      .select(['id', 'property_type as word'])
      .where(isUnresolved)
      .orderBy('id')
      .limit(BATCH_SIZE)
      .execute();
    if (rows.length === 0) break;
    const types = rows.map(({ word }) => findPropertyType(word ?? '') ?? null);
    // A worker may have updated the listing in the meantime.
    const { numAffectedRows } = await sql`
      update property_listings as listing
      set property_type = stored.type, property_type_text = stored.word,
        search_text = concat_ws(' ', search_text, stored.type)
      from unnest(${rows.map(({ id }) => id)}::bigint[], ${rows.map(({ word }) => word)}::text[],
        ${types}::text[]) as stored (id, word, type)
      where listing.id = stored.id and listing.property_type = stored.word`.execute(db);
    changedCount += Number(numAffectedRows ?? 0n);
  }
  return changedCount;
}
