import { type Kysely, sql, type Transaction } from 'kysely';
import {
  type AccessScope,
  accessScope,
  lockOwner,
  type User,
  whereInScope,
} from '../access/permissions.ts';
import { recordOthersData } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import { buildTimeOrder, type Position } from '../pages.ts';
import { lockSession, requireSession } from '../conversations/session-rows.ts';
import type { SessionService } from '../conversations/sessions.ts';
import type { Tables } from '../tables.ts';
import { toStorableJson } from '../text.ts';
import { checkRanges, type Search } from './search.ts';

/** Maximum number of searches per user. Each search causes requests to the collector. */
const MAX_SAVED_SEARCHES = 20;

/** Default minimum number of minutes between two digests. */
export const DEFAULT_EVERY_MINUTES = 60;

/** Saved search. `session_id` is null once the session is deleted. `told_at` is the time of the last digest, if any. */
export type SavedSearch = {
  id: string;
  user_id: string;
  session_id: string | null;
  name: string;
  search: Search;
  every_minutes: number;
  paused: boolean;
  created_at: Date;
  updated_at: Date;
  told_at: Date | null;
};

type SavedSearchValues = Pick<SavedSearch, 'name' | 'search' | 'every_minutes' | 'paused'> & {
  session_id: string;
};

export type SavedSearches = ReturnType<typeof createSavedSearchService>;

/**
 * Creates the operations on saved searches. Users access their own searches, and admins also those of other users by
 * ID, which is recorded. Contract 3, Errors.
 */
export function createSavedSearchService({
  db,
  sessions,
}: {
  db: Kysely<Tables>;
  sessions: Pick<SessionService, 'createSessionIn'>;
}) {
  return {
    /** Lists at most `limit` searches of the user with their positions, newest first. */
    list: (user: User, page: { after: Position | undefined; limit: number }) =>
      listSavedSearches(db, { userId: user.id, ...page }),

    /** Returns a search. @throws ProblemError `saved_search_not_found` or `saved_search_not_yours` */
    async find(user: User, id: string): Promise<SavedSearch> {
      const savedSearch = await findSavedSearch(db, id, accessScope(user));
      await recordAccess(db, 'others_data_read', user, savedSearch);
      return savedSearch;
    },

    /** Lists at most `limit` finds of a search, latest first. @throws ProblemError as `find` does */
    async listFinds(
      user: User,
      id: string,
      page: { after: FindPosition | undefined; limit: number },
    ) {
      const savedSearch = await findSavedSearch(db, id, accessScope(user));
      await recordAccess(db, 'others_data_read', user, savedSearch);
      return listFinds(db, { searchId: id, ...page });
    },

    /**
     * Saves a search. Without a session, a new one is created for its digests.
     * @throws ProblemError `validation_failed` for an empty range, `session_not_found`, `session_not_yours`,
     *   `too_many_saved_searches`, and the errors of `SessionService.createSession`.
     */
    create(
      user: User,
      {
        session_id: requestedSessionId,
        ...body
      }: Pick<SavedSearchValues, 'name' | 'search'> & Partial<SavedSearchValues>,
    ): Promise<SavedSearch> {
      const { name, search, every_minutes = DEFAULT_EVERY_MINUTES, paused = false } = body;
      checkRanges(search);
      return db.transaction().execute(async (trx) => {
        await lockOwner(trx, user.id);
        await checkSearchLimit(trx, user.id);
        const session_id =
          requestedSessionId === undefined
            ? await createSession(trx, user, name)
            : await lockOwnSession(trx, { sessionId: requestedSessionId, userId: user.id });
        const values = { name, search: toStorableJson(search), every_minutes, paused };
        return trx
          .insertInto('saved_searches')
          .values({ user_id: user.id, session_id, ...values })
          .returning(savedSearchColumns)
          .executeTakeFirstOrThrow();
      });
    },

    /**
     * Changes a search. A search without a session gets a new session when its owner resumes it.
     * @throws ProblemError `saved_search_not_found`, `saved_search_not_yours`, and the errors of `create` except
     *   `too_many_saved_searches`.
     */
    change(user: User, id: string, changes: Partial<SavedSearchValues>): Promise<SavedSearch> {
      const { session_id: requestedSessionId, search, ...values } = changes;
      if (search !== undefined) checkRanges(search);
      const scope = accessScope(user);
      const isResumed = changes.paused === false && requestedSessionId === undefined;
      return db.transaction().execute(async (trx) => {
        // The second of two concurrent requests finds the session of the first one.
        if (isResumed) await lockOwner(trx, user.id);
        // Sessions are locked before searches, so the search is not locked here.
        const savedSearch = await findSavedSearch(trx, id, scope);
        let sessionId: string | undefined;
        if (requestedSessionId !== undefined) {
          sessionId = await lockOwnSession(trx, {
            sessionId: requestedSessionId,
            userId: savedSearch.user_id,
          });
        } else if (isResumed && savedSearch.session_id === null) {
          if (savedSearch.user_id !== user.id) throw problem('session_not_found');
          sessionId = await createSession(trx, user, changes.name ?? savedSearch.name);
        }
        const changedSearch = await trx
          .updateTable('saved_searches')
          .set({
            ...values,
            ...(sessionId !== undefined && { session_id: sessionId }),
            ...(search !== undefined && { search: toStorableJson(search) }),
            updated_at: sql<Date>`now()`,
          })
          .where('id', '=', id)
          .where(whereInScope(scope, 'user_id'))
          .returning(savedSearchColumns)
          .executeTakeFirst();
        if (changedSearch === undefined) throw problem('saved_search_not_found');
        await recordAccess(trx, 'others_data_changed', user, savedSearch);
        return changedSearch;
      });
    },

    /** Deletes a search. @throws ProblemError `saved_search_not_found` or `saved_search_not_yours` */
    async delete(user: User, id: string): Promise<void> {
      await db.transaction().execute(async (trx) => {
        const savedSearch = await findSavedSearch(trx, id, accessScope(user));
        await trx.deleteFrom('saved_searches').where('id', '=', id).execute();
        await recordAccess(trx, 'others_data_changed', user, savedSearch);
      });
    },
  };

  async function createSession(trx: Transaction<Tables>, user: User, name: string) {
    return (await sessions.createSessionIn(trx, user, { name })).session_id;
  }
}

/** Checks that a user may save one more search. @throws ProblemError `too_many_saved_searches` */
async function checkSearchLimit(trx: Transaction<Tables>, userId: string): Promise<void> {
  const { count } = await trx
    .selectFrom('saved_searches')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow();
  if (count < MAX_SAVED_SEARCHES) return;
  throw problem('too_many_saved_searches', {
    detail: `You have ${MAX_SAVED_SEARCHES}, which is the maximum. Delete one that you no longer need, then try again.`,
  });
}

/** Locks a session of a user and returns its ID. @throws ProblemError `session_not_found` or `session_not_yours` */
async function lockOwnSession(
  trx: Transaction<Tables>,
  { sessionId, userId }: { sessionId: string; userId: string },
): Promise<string> {
  const key = { sessionId, scope: { userId } };
  if ((await lockSession(trx, key)) !== undefined) return sessionId;
  await requireSession(trx, key);
  throw problem('session_not_found');
}

const searchOrder = buildTimeOrder('created_at');

const savedSearchColumns = [
  'id',
  'user_id',
  'session_id',
  'name',
  sql<Search>`search`.as('search'),
  'every_minutes',
  'paused',
  'created_at',
  'updated_at',
  'told_at',
] as const;

/** Returns a search in an access scope. @throws ProblemError `saved_search_not_found` or `saved_search_not_yours` */
async function findSavedSearch(
  db: Kysely<Tables>,
  id: string,
  scope: AccessScope,
): Promise<SavedSearch> {
  const row = await db
    .selectFrom('saved_searches')
    .select([...savedSearchColumns, whereInScope(scope, 'user_id').as('isInScope')])
    .where('id', '=', id)
    .executeTakeFirst();
  if (row === undefined) throw problem('saved_search_not_found');
  const { isInScope, ...savedSearch } = row;
  if (isInScope !== true) throw problem('saved_search_not_yours');
  return savedSearch;
}

async function recordAccess(
  db: Kysely<Tables>,
  action: 'others_data_read' | 'others_data_changed',
  user: User,
  { id, user_id: ownerId }: SavedSearch,
): Promise<void> {
  const details = { data: 'saved_search', saved_search_id: id };
  await recordOthersData(db, action, { actorId: user.id, ownerId, details });
}

/** Lists at most `limit` searches of a user with their positions, newest first. */
export async function listSavedSearches(
  db: Kysely<Tables>,
  { userId, after, limit }: { userId: string; after?: Position | undefined; limit: number },
): Promise<(SavedSearch & { position: Position })[]> {
  let query = db
    .selectFrom('saved_searches')
    .select([...savedSearchColumns, searchOrder.microseconds.as('created_us')])
    .where('user_id', '=', userId)
    .orderBy(searchOrder.time, 'desc')
    .orderBy('id', 'desc')
    .limit(limit);
  if (after !== undefined) query = query.where(searchOrder.isAfter(after));
  const rows = await query.execute();
  return rows.map(({ created_us, ...savedSearch }) => ({
    ...savedSearch,
    position: [created_us, savedSearch.id],
  }));
}

/** Time of a find in microseconds since 1970, and the listing ID. */
type FindPosition = [foundUs: number, listingId: number];

async function listFinds(
  db: Kysely<Tables>,
  { searchId, after, limit }: { searchId: string; after: FindPosition | undefined; limit: number },
) {
  const foundUs = sql<number>`(extract(epoch from found_at) * 1000000)::bigint`;
  let query = db
    .selectFrom('saved_search_hits')
    .select(['listing_id', 'kind', 'old_price', 'found_at', 'told_at', foundUs.as('found_us')])
    .where('search_id', '=', searchId)
    .orderBy('found_at', 'desc')
    .orderBy('listing_id', 'desc')
    .limit(limit);
  if (after !== undefined) {
    const [microseconds, listingId] = after;
    query = query.where(sql<boolean>`(${foundUs}, listing_id) < (
      ${microseconds}::bigint, ${listingId}::bigint)`);
  }
  return query.execute();
}

/** Lists at most `limit` hits of a search in an access scope, ordered by listing ID. */
export function listHits(
  db: Kysely<Tables>,
  hits: { searchId: string; scope: AccessScope; after?: number | undefined; limit: number },
) {
  const { searchId, scope, after = 0, limit } = hits;
  return db
    .selectFrom('saved_search_hits')
    .innerJoin('saved_searches', 'saved_searches.id', 'search_id')
    .select(['listing_id', 'kind', 'found_at', 'saved_search_hits.told_at'])
    .where('search_id', '=', searchId)
    .where(whereInScope(scope, 'user_id'))
    .where('listing_id', '>', after)
    .orderBy('listing_id')
    .limit(limit)
    .execute();
}

/** Deletes a user's searches with their hits, and returns the number of deleted searches. */
export async function deleteSavedSearches(
  trx: Transaction<Tables>,
  userId: string,
): Promise<number> {
  const { numDeletedRows } = await trx
    .deleteFrom('saved_searches')
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow();
  return Number(numDeletedRows);
}
