import { type Kysely, sql, type Transaction } from 'kysely';
import pLimit, { type LimitFunction } from 'p-limit';
import { checkAccess } from '../access/guards.ts';
import { type AccessScope, accessScope, type User, whereInScope } from '../access/permissions.ts';
import { recordOthersData } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import { buildTimeOrder, type Position } from '../pages.ts';
import { requireSession } from '../conversations/session-rows.ts';
import type { Tables } from '../tables.ts';
import {
  checkFactLimit,
  countFacts,
  deleteFact,
  type Fact,
  type FactName,
  findFact,
  listFacts,
  lockMemory,
  type RecordChange,
  writeFact,
} from './facts.ts';

export type KnownFact = Pick<Fact, 'category' | 'key' | 'value'>;

/** Maximum number of words in a search. Each word is matched against every fact. */
const MAX_SEARCH_WORDS = 5;

/** Maximum number of waiting searches per user and process. A process runs a user's searches one at a time. */
const MAX_WAITING_SEARCHES = 4;

/** Time limit for each statement of a search in the facts of all users. */
const SEARCH_TIMEOUT_MS = 5000;

const MAX_CONTEXT_FACTS = 500;

/** PostgreSQL error code `query_canceled`. */
const QUERY_CANCELED = '57014';

export type Memory = ReturnType<typeof createMemoryService>;

/** Query for facts. `userId` restricts the scope `all`, and `q` has words that a fact must contain. */
type FactQuery = {
  scope: 'own' | 'all';
  userId?: string | undefined;
  category?: string | undefined;
  q?: string | undefined;
};

type Page = { limit: number; after: Position | undefined };

/** Summary of a user. Only admins see a summary without an owner, which an older system stored. */
export type Summary = { user_id: string | null; summary: string; updated_at: Date | null };

/** Options of a change: `recordChange` is called before a fact changes, and an aborted `signal` rolls it back. */
type ChangeOptions = { signal?: AbortSignal; recordChange?: RecordChange };

/**
 * Creates the operations on memory. Users read and change their own memory, holders of `svc.memory.read_all` read the
 * memory of all users, and admins also memory without an owner. Reading what the user does not own is recorded.
 * Specification 000, Ownership columns.
 */
export function createMemoryService({
  db,
  searchTimeoutMs = SEARCH_TIMEOUT_MS,
}: {
  db: Kysely<Tables>;
  searchTimeoutMs?: number;
}) {
  const searches = new Map<string, LimitFunction>();

  return {
    /**
     * Lists at most `limit` facts with their positions, the most recently written first.
     * @throws ProblemError `permission_missing`, `validation_failed` for too many words or a search that takes too
     *   long, `rate_limited` for too many concurrent searches.
     */
    async listFacts(user: User, { limit, after, ...query }: FactQuery & Page) {
      const { scope, ...filter } = resolveQuery(user, query);
      const facts = await search(user, scope, filter.words, (connection) =>
        listFacts(connection, scope, { ...filter, limit, after }),
      );
      await recordReading(user, facts, query.userId, 'memory_facts');
      return facts;
    },

    /**
     * Lists facts like `listFacts`, with the number of facts on all pages. Because the count alone reveals facts, the
     * access is recorded even for an empty page.
     * @throws The errors of `listFacts`.
     */
    async listAndCountFacts(user: User, { limit, after, ...query }: FactQuery & Page) {
      const { scope, ...filter } = resolveQuery(user, query);
      const { facts, count, othersCount } = await search(
        user,
        scope,
        filter.words,
        async (connection) => ({
          ...(await countFacts(connection, scope, { ...filter, readerId: user.id })),
          facts: await listFacts(connection, scope, { ...filter, limit, after }),
        }),
      );
      const countedRows = othersCount > 0 ? [{ user_id: null }] : [];
      await recordReading(user, [...facts, ...countedRows], query.userId, 'memory_facts');
      return { facts, count };
    },

    /** Lists the latest facts of a user for a model's context. The caller records access to other users' facts. */
    listLatestFacts: (userId: string): Promise<Fact[]> =>
      listFacts(db, { userId }, { limit: MAX_CONTEXT_FACTS }),

    /** Returns the summary of a user, or an empty string. The caller records access to other users' summaries. */
    readSummary: async (userId: string): Promise<string> =>
      (await findSummary(db, userId))?.summary ?? '',

    /**
     * Writes a fact of the user, and returns it with its previous value.
     * @param fact.sourceSessionId Conversation in which the assistant learned the fact.
     * @throws ProblemError `memory_full`, `session_not_yours`, or `session_not_found` if the conversation was deleted;
     *   an error of `recordChange`; the signal's reason.
     */
    putFact(
      user: User,
      fact: FactName & { value: string; sourceSessionId?: string | null },
      { signal, recordChange }: ChangeOptions = {},
    ): Promise<{ fact: Fact; previous: string | undefined }> {
      const { category, key, value, sourceSessionId = null } = fact;
      const factKey = { userId: user.id, category, key };
      return changeMemory(user, signal, async (trx) => {
        if (sourceSessionId !== null) {
          await requireSession(trx, { sessionId: sourceSessionId, scope: { userId: user.id } });
        }
        const { value: previous, origin } = (await findFact(trx, factKey)) ?? {};
        if (previous === undefined) await checkFactLimit(trx, user.id, 'send the new fact again');
        if (previous !== value) {
          const recordedChange = { category, key, value, previous: previous ?? null };
          await recordChange?.(trx, { ...recordedChange, ...(origin !== undefined && { origin }) });
        }
        return { fact: await writeFact(trx, { ...factKey, value, sourceSessionId }), previous };
      });
    },

    /**
     * Deletes a fact of the user and returns its value.
     * @throws ProblemError `fact_not_found`; an error of `recordChange`; the signal's reason.
     */
    deleteFact(
      user: User,
      { category, key }: FactName,
      { signal, recordChange }: ChangeOptions = {},
    ): Promise<string> {
      const factKey = { userId: user.id, category, key };
      return changeMemory(user, signal, async (trx) => {
        const fact = await findFact(trx, factKey);
        if (fact === undefined) throw problem('fact_not_found');
        const { value: previous, origin } = fact;
        await recordChange?.(trx, { category, key, value: null, previous, origin });
        await deleteFact(trx, factKey);
        return previous;
      });
    },

    /**
     * Returns the user's summary, or an empty one.
     * @throws ProblemError `permission_missing`
     */
    async findSummary(user: User): Promise<Summary> {
      checkAccess(user, { permission: 'svc.memory.read_own' });
      const emptySummary = { user_id: user.id, summary: '', updated_at: null };
      return (await findSummary(db, user.id)) ?? emptySummary;
    },

    /**
     * Lists at most `limit` summaries of all users with their positions, the most recently updated first.
     * @throws ProblemError `permission_missing`
     */
    async listSummaries(user: User, { limit, after }: Page) {
      const { scope } = resolveQuery(user, { scope: 'all' });
      let query = db
        .selectFrom('memory_summaries')
        .select(['id', ...summaryColumns, summaryOrder.microseconds.as('updated_us')])
        .where(whereInScope(scope, 'user_id'))
        .orderBy(summaryOrder.time, 'desc')
        .orderBy('id', 'desc')
        .limit(limit);
      if (after !== undefined) query = query.where(summaryOrder.isAfter(after));
      const rows = await query.execute();
      await recordReading(user, rows, undefined, 'memory_summaries');
      return rows.map(({ id, updated_us, ...summary }) => ({
        ...summary,
        position: [updated_us, id] satisfies Position,
      }));
    },
  };

  /** Changes memory in a transaction that an aborted signal rolls back. */
  function changeMemory<Result>(
    user: User,
    signal: AbortSignal | undefined,
    work: (trx: Transaction<Tables>) => Promise<Result>,
  ): Promise<Result> {
    return db.transaction().execute(async (trx) => {
      await lockMemory(trx, user.id);
      signal?.throwIfAborted();
      const result = await work(trx);
      signal?.throwIfAborted();
      return result;
    });
  }

  /**
   * Runs the statements that list or count facts. A process runs a user's searches for words one at a time. Searches in
   * the facts of several users have a time limit, which the embedded database ignores.
   * @throws ProblemError `validation_failed` at the time limit, `rate_limited`
   */
  async function search<Result>(
    user: User,
    scope: AccessScope,
    words: readonly string[],
    statements: (connection: Kysely<Tables>) => Promise<Result>,
  ): Promise<Result> {
    if (words.length === 0) return statements(db);
    const queue = searches.get(user.id) ?? pLimit(1);
    if (queue.activeCount + queue.pendingCount > MAX_WAITING_SEARCHES)
      throw createSearchLimitError();
    searches.set(user.id, queue);
    try {
      return await queue(() => {
        if (typeof scope === 'object') return statements(db);
        const timeout = String(searchTimeoutMs);
        return db.transaction().execute(async (trx) => {
          await sql`select set_config('statement_timeout', ${timeout}, true)`.execute(trx);
          return statements(trx);
        });
      });
    } catch (error) {
      if (Object(error).code !== QUERY_CANCELED) throw error;
      const message = `takes longer than ${searchTimeoutMs / 1000} s in this many facts: name a category as well, or at /admin/memory a user_id`;
      throw problem('validation_failed', { errors: [{ path: 'querystring/q', message }] });
    } finally {
      if (queue.activeCount + queue.pendingCount === 0) searches.delete(user.id);
    }
  }

  async function recordReading(
    user: User,
    rows: readonly { user_id: string | null }[],
    ownerId: string | undefined,
    data: 'memory_facts' | 'memory_summaries',
  ): Promise<void> {
    if (rows.every(({ user_id }) => user_id === user.id)) return;
    const access = { actorId: user.id, ownerId: ownerId ?? null, details: { data } };
    await recordOthersData(db, 'others_data_read', access);
  }
}

const summaryOrder = buildTimeOrder('updated_at');

const summaryColumns = [
  'user_id',
  sql<string>`coalesce(summary, '')`.as('summary'),
  'updated_at',
] as const;

/** Returns the memory summary of a user, or undefined if the user has none. */
export function findSummary(db: Kysely<Tables>, userId: string): Promise<Summary | undefined> {
  return db
    .selectFrom('memory_summaries')
    .select(summaryColumns)
    .where('user_id', '=', userId)
    .executeTakeFirst();
}

/**
 * Resolves a query to the rows that the user may see.
 * @throws ProblemError `permission_missing`, `validation_failed`
 */
function resolveQuery(user: User, { scope, userId, category, q = '' }: FactQuery) {
  checkAccess(user, {
    permission: scope === 'own' ? 'svc.memory.read_own' : 'svc.memory.read_all',
  });
  const words = [...new Set(q.split(/\s+/u).filter(Boolean))];
  if (words.length > MAX_SEARCH_WORDS) {
    const message = `must have at most ${MAX_SEARCH_WORDS} words`;
    throw problem('validation_failed', { errors: [{ path: 'querystring/q', message }] });
  }
  const ownerId = scope === 'own' ? user.id : userId;
  const accessibleScope: AccessScope =
    ownerId === undefined ? accessScope(user, 'svc.memory.read_all') : { userId: ownerId };
  return { scope: accessibleScope, category, words };
}

function createSearchLimitError() {
  return problem('rate_limited', {
    detail: `One search of yours is running and ${MAX_WAITING_SEARCHES} are waiting. Wait for an answer, then try again.`,
    headers: {
      'ratelimit-limit': String(1 + MAX_WAITING_SEARCHES),
      'ratelimit-remaining': '0',
      'ratelimit-reset': '1',
      'retry-after': '1',
    },
  });
}
