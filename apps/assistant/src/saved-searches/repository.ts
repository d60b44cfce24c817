import { type Kysely, sql, type Transaction } from 'kysely';
import { whereInScope, type AccessScope } from '../access/permissions.ts';
import { newestFirst, type Position } from '../pages.ts';
import { storableJson } from '../text.ts';
import type { Tables } from '../tables.ts';
import type { Search } from './search.ts';

/** A search that a user keeps. */
export type SavedSearch = {
  id: string;
  user_id: string;
  /** Null where the session that it reported to was deleted. */
  session_id: string | null;
  name: string;
  search: Search;
  every_minutes: number;
  paused: boolean;
  created_at: Date;
  updated_at: Date;
  /** The last digest. */
  told_at: Date | null;
};

const columns = [
  'id',
  'user_id',
  'session_id',
  'name',
  // It was checked before it was written.
  sql<Search>`search`.as('search'),
  'every_minutes',
  'paused',
  'created_at',
  'updated_at',
  'told_at',
] as const;

const created = newestFirst('created_at');

/**
 * The searches of a user, the newest first.
 * @returns At most `limit`, each with its position.
 */
export async function listSavedSearches(
  db: Kysely<Tables>,
  { userId, after, limit }: { userId: string; after?: Position | undefined; limit: number },
): Promise<(SavedSearch & { position: Position })[]> {
  let query = db
    .selectFrom('saved_searches')
    .select([...columns, created.microseconds.as('created_us')])
    .where('user_id', '=', userId)
    .orderBy(created.time, 'desc')
    .orderBy('id', 'desc')
    .limit(limit);
  if (after !== undefined) query = query.where(created.isAfter(after));
  const rows = await query.execute();
  return rows.map(({ created_us, ...saved }) => ({ ...saved, position: [created_us, saved.id] }));
}

/** Whose a search is, whoever asks; nothing where there is none. */
export async function findOwner(db: Kysely<Tables>, id: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('saved_searches')
    .select('user_id')
    .where('id', '=', id)
    .executeTakeFirst();
  return row?.user_id;
}

/** A search within reach; nothing where there is none. */
export function findSavedSearch(
  db: Kysely<Tables>,
  { id, reach }: { id: string; reach: AccessScope },
): Promise<SavedSearch | undefined> {
  return db
    .selectFrom('saved_searches')
    .select(columns)
    .where('id', '=', id)
    .where(whereInScope(reach, 'user_id'))
    .executeTakeFirst();
}

/** How many searches a user keeps. */
export async function countSavedSearches(
  trx: Transaction<Tables>,
  userId: string,
): Promise<number> {
  const { count } = await trx
    .selectFrom('saved_searches')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow();
  return count;
}

/** A search to keep, or what of one is to change. */
type Values = {
  session_id: string;
  name: string;
  search: Search;
  every_minutes: number;
  paused: boolean;
};

/** Keeps a search. */
export function insertSavedSearch(
  trx: Transaction<Tables>,
  { search, ...values }: Values & { user_id: string },
): Promise<SavedSearch> {
  return trx
    .insertInto('saved_searches')
    .values({ ...values, search: storableJson(search) })
    .returning(columns)
    .executeTakeFirstOrThrow();
}

/**
 * Changes a search within reach. Where it searches for something else from then on, what it found before and has not
 * told has to be found by it as it is now.
 * @returns Nothing where there is none.
 */
export async function updateSavedSearch(
  trx: Transaction<Tables>,
  { id, reach }: { id: string; reach: AccessScope },
  { search, ...values }: Partial<Values>,
): Promise<SavedSearch | undefined> {
  const asked = search === undefined ? undefined : storableJson(search);
  const before = await trx
    .selectFrom('saved_searches')
    .select(sql<boolean>`search <> coalesce(${asked}::jsonb, search)`.as('is_changed'))
    .where('id', '=', id)
    .where(whereInScope(reach, 'user_id'))
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (before === undefined) return undefined;
  if (before.is_changed) {
    await trx
      .updateTable('saved_search_hits')
      .set({ search_changed: true })
      .where('search_id', '=', id)
      .where('told_at', 'is', null)
      .execute();
  }
  return trx
    .updateTable('saved_searches')
    .set({
      ...values,
      ...(asked !== undefined && { search: asked }),
      updated_at: sql<Date>`now()`,
    })
    .where('id', '=', id)
    .returning(columns)
    .executeTakeFirst();
}

/** Deletes a search within reach, and says whose it was; nothing where there is none. */
export async function deleteSavedSearch(
  trx: Transaction<Tables>,
  { id, reach }: { id: string; reach: AccessScope },
): Promise<string | undefined> {
  const row = await trx
    .deleteFrom('saved_searches')
    .where('id', '=', id)
    .where(whereInScope(reach, 'user_id'))
    .returning('user_id')
    .executeTakeFirst();
  return row?.user_id;
}

/** Deletes the searches of a user with what they have found, and says how many there were. */
export async function deleteSavedSearchesOf(
  trx: Transaction<Tables>,
  userId: string,
): Promise<number> {
  const { numDeletedRows } = await trx
    .deleteFrom('saved_searches')
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow();
  return Number(numDeletedRows);
}

/**
 * What a search within reach has found, by the ids of the listings.
 * @returns At most `limit`, after a listing.
 */
export function listHits(
  db: Kysely<Tables>,
  {
    searchId,
    reach,
    after = 0,
    limit,
  }: { searchId: string; reach: AccessScope; after?: number | undefined; limit: number },
) {
  return db
    .selectFrom('saved_search_hits')
    .select(['listing_id', 'kind', 'found_at', 'told_at'])
    .where('search_id', 'in', (eb) =>
      eb
        .selectFrom('saved_searches')
        .select('id')
        .where('id', '=', searchId)
        .where(whereInScope(reach, 'user_id')),
    )
    .where('listing_id', '>', after)
    .orderBy('listing_id')
    .limit(limit)
    .execute();
}
