import type { Kysely, Transaction } from 'kysely';
import { lockOwner, accessScope, type User } from '../access/permissions.ts';
import { recordOthersData } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import type { Position } from '../pages.ts';
import { lockSession, requireSession, type Sessions } from '../sessions/index.ts';
import type { Tables } from '../tables.ts';
import {
  countSavedSearches,
  deleteSavedSearch,
  findOwner,
  findSavedSearch,
  insertSavedSearch,
  listSavedSearches,
  type SavedSearch,
  updateSavedSearch,
} from './repository.ts';
import { DEFAULT_EVERY_MINUTES, type SavedSearchBody, type SavedSearchChanges } from './schemas.ts';
import { checkRanges } from './search.ts';

/** How many searches a user may keep: each asks the collector about everything that changes. */
export const MAX_SAVED_SEARCHES = 20;

/** Saved searches under their rules of ownership. */
export type SavedSearches = ReturnType<typeof createSavedSearches>;

/**
 * What can be done with saved searches: everybody has their own, and an admin reaches everybody's, which is
 * recorded. Contract 3, Errors.
 */
export function createSavedSearches({
  db,
  sessions,
}: {
  db: Kysely<Tables>;
  sessions: Pick<Sessions, 'createSessionIn'>;
}) {
  return {
    /** One's own, the newest first, each with its position. */
    list: (user: User, page: { after: Position | undefined; limit: number }) =>
      listSavedSearches(db, { userId: user.id, ...page }),

    /** @throws ProblemError `saved_search_not_found` or `saved_search_not_yours`. */
    async find(user: User, id: string): Promise<SavedSearch> {
      const saved =
        (await findSavedSearch(db, { id, reach: accessScope(user) })) ?? (await refuse(db, id));
      await recordOthersData(db, 'others_data_read', {
        actorId: user.id,
        ownerId: saved.user_id,
        details: { data: 'saved_search', saved_search_id: id },
      });
      return saved;
    },

    /**
     * Keeps a search, in a new session where none is named.
     * @throws ProblemError `validation_failed` for a range that nothing can be in, `session_not_found`,
     *   `session_not_yours`, `too_many_saved_searches`, and those of `Sessions.createSession`.
     */
    create(user: User, body: SavedSearchBody): Promise<SavedSearch> {
      checkRanges(body.search);
      const { every_minutes = DEFAULT_EVERY_MINUTES, paused = false, session_id: named } = body;
      return db.transaction().execute(async (trx) => {
        await lockOwner(trx, user.id);
        if ((await countSavedSearches(trx, user.id)) >= MAX_SAVED_SEARCHES) {
          throw problem('too_many_saved_searches', {
            detail: `You have ${MAX_SAVED_SEARCHES}, which is the most. Delete one that is not needed any more, then try again.`,
          });
        }
        const { name, search } = body;
        const session_id =
          named === undefined
            ? await newSession(trx, user, name)
            : await ownSession(trx, { sessionId: named, userId: user.id });
        return insertSavedSearch(trx, {
          user_id: user.id,
          session_id,
          name,
          search,
          every_minutes,
          paused,
        });
      });
    },

    /**
     * Changes a search; one whose session was deleted, and that is to go on, gets a new one.
     * @throws ProblemError `saved_search_not_found`, `saved_search_not_yours`, and those of `create` but for the
     *   number of searches.
     */
    change(user: User, id: string, changes: SavedSearchChanges): Promise<SavedSearch> {
      if (changes.search !== undefined) checkRanges(changes.search);
      const reach = accessScope(user);
      return db.transaction().execute(async (trx) => {
        // It may get a session below: of two that ask for that at once, the second finds the session of the first.
        if (changes.paused === false && changes.session_id === undefined) {
          await lockOwner(trx, user.id);
        }
        // Without a lock of its own: sessions are locked before searches, as by whoever deletes one.
        const saved = (await findSavedSearch(trx, { id, reach })) ?? (await refuse(trx, id));
        const { session_id: named, ...rest } = changes;
        const session_id =
          named === undefined
            ? await sessionToGoOn(trx, user, { saved, changes })
            : await ownSession(trx, { sessionId: named, userId: saved.user_id });
        const changed = await updateSavedSearch(
          trx,
          { id, reach },
          {
            ...rest,
            ...(session_id !== undefined && { session_id }),
          },
        );
        // It was deleted since it was looked at.
        if (changed === undefined) throw problem('saved_search_not_found');
        await recordChange(trx, user, saved);
        return changed;
      });
    },

    /** @throws ProblemError `saved_search_not_found` or `saved_search_not_yours`. */
    async delete(user: User, id: string): Promise<void> {
      await db.transaction().execute(async (trx) => {
        const deleted = await deleteSavedSearch(trx, { id, reach: accessScope(user) });
        const ownerId = deleted ?? (await refuse(trx, id));
        await recordChange(trx, user, { id, user_id: ownerId });
      });
    },
  };

  async function sessionToGoOn(
    trx: Transaction<Tables>,
    user: User,
    { saved, changes }: { saved: SavedSearch; changes: SavedSearchChanges },
  ): Promise<string | undefined> {
    const isWanted = saved.session_id === null && changes.paused === false;
    if (!isWanted) return undefined;
    // Nobody opens sessions for others.
    if (saved.user_id !== user.id) throw problem('session_not_found');
    return newSession(trx, user, changes.name ?? saved.name);
  }

  async function newSession(trx: Transaction<Tables>, user: User, name: string): Promise<string> {
    const { session_id } = await sessions.createSessionIn(trx, user, { name });
    return session_id;
  }
}

async function ownSession(
  trx: Transaction<Tables>,
  { sessionId, userId }: { sessionId: string; userId: string },
): Promise<string> {
  const reach = { userId };
  const session = await lockSession(trx, { sessionId, reach });
  if (session === undefined) {
    await requireSession(trx, { sessionId, reach });
    throw problem('session_not_found');
  }
  return sessionId;
}

/** Says why a statement found no search within reach. */
async function refuse(db: Kysely<Tables>, id: string): Promise<never> {
  const owner = await findOwner(db, id);
  throw problem(owner === undefined ? 'saved_search_not_found' : 'saved_search_not_yours');
}

async function recordChange(
  trx: Transaction<Tables>,
  user: User,
  saved: Pick<SavedSearch, 'id' | 'user_id'>,
): Promise<void> {
  await recordOthersData(trx, 'others_data_changed', {
    actorId: user.id,
    ownerId: saved.user_id,
    details: { data: 'saved_search', saved_search_id: saved.id },
  });
}
