import type { Kysely } from 'kysely';
import { checkAccess } from '../access/guards.ts';
import { type User, type AccessScope, accessScope } from '../access/permissions.ts';
import { recordOthersData } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import type { Position } from '../pages.ts';
import { requireSession } from '../sessions/index.ts';
import { abortableTransaction } from './abortable-transaction.ts';
import type { NoteChange } from './change.ts';
import { lockMemoryOf } from './own-memory-lock.sql.ts';
import { createTurns } from './turns.ts';
import {
  countFacts,
  countOwnFacts,
  deleteFact,
  type Fact,
  findFact,
  listFacts,
  writeFact,
} from './repository.ts';
import { findSummary, listSummaries, type Summary } from './summary-repository.ts';
import { withinTime } from './within-time.sql.ts';

/** What a model is told of a fact. */
export type KnownFact = Pick<Fact, 'category' | 'key' | 'value'>;

/** How many facts a user may have. Adoption of legacy facts may pass it. */
export const MAX_FACTS = 2000;

/** How many words a search has at most: each is looked for in every fact. */
export const MAX_WORDS = 5;

/** How many searches of a user wait for the one before, which may go through all that there is. */
export const MAX_WAITING = 4;

/** How long each of the two statements of a search in everybody's facts may take, which no number of facts bounds. */
export const SEARCH_MS = 5000;

/** More than there is room for in a model's context, short as they may be. */
export const LATEST_FACTS = 500;

/** Memory under its rules of ownership. */
export type Memory = ReturnType<typeof createMemory>;

/** Whose facts somebody asks for, and which of them. */
type Asked = {
  scope: 'own' | 'all';
  /** Of all, those of one user. */
  userId?: string | undefined;
  category?: string | undefined;
  /** Words that all stand somewhere in a fact. */
  q?: string | undefined;
};

type Page = { limit: number; after: Position | undefined };

/** What was read, and whose; null where it is several people's, or nobody's. */
type Reading = { ownerId: string | null; data: string };

type FactName = { category: string; key: string };

/** What somebody who changes a fact for another asks for beside it. */
type ChangeOptions = {
  /** Gives the change up, where it has not been made by then. */
  signal?: AbortSignal;
  /** Not called where a fact stays as it is. */
  note?: NoteChange;
};

/**
 * What can be done with memory, by whom, and with what is recorded of it: everybody has their own, who
 * has `svc.memory.read_all` sees that of all users, and admins beside it what has no owner.
 * Specification 000, Ownership columns; Contract 3, Further endpoints.
 */
export function createMemory({
  db,
  maxFacts = MAX_FACTS,
  searchMs = SEARCH_MS,
}: {
  db: Kysely<Tables>;
  maxFacts?: number;
  /** See {@link SEARCH_MS}. */
  searchMs?: number;
}) {
  const takeTurn = createTurns(MAX_WAITING);
  return {
    /**
     * Facts, the most recently written first; that others' are among them is recorded.
     * @returns Up to `limit`, each with its position for the next page.
     * @throws ProblemError `permission_missing`, `validation_failed` where there are too many words, or too many facts
     *   to look for them in, `rate_limited` where too many searches of the user wait.
     */
    async listFacts(user: User, { limit, after, ...asked }: Asked & Page) {
      const reach = memoryReach(user, asked);
      const filter = { category: asked.category, words: toWords(asked.q) };
      const facts = await read(user, { reach, ...filter }, (on) =>
        listFacts(on, reach, { ...filter, limit, after }),
      );
      await noteReading(user, facts, { ownerId: asked.userId ?? null, data: 'memory_facts' });
      return facts;
    },

    /**
     * As `listFacts`, with how many there are on all pages. A count tells of facts as well, whatever page
     * is asked for: words that are found, or not, spell out a fact that no page shows.
     * @throws ProblemError As `listFacts`.
     */
    async listAndCountFacts(user: User, { limit, after, ...asked }: Asked & Page) {
      const reach = memoryReach(user, asked);
      const filter = { category: asked.category, words: toWords(asked.q) };
      const { facts, count, others } = await read(user, { reach, ...filter }, async (on) => ({
        // First, as it goes through all: where there are too many it is what is ended.
        ...(await countFacts(on, reach, { ...filter, readerId: user.id })),
        facts: await listFacts(on, reach, { ...filter, limit, after }),
      }));
      const reading = { ownerId: asked.userId ?? null, data: 'memory_facts' };
      if (others > 0) await recordReading(user, reading);
      else await noteReading(user, facts, reading);
      return { facts, count };
    },

    /**
     * What is known of a user, the most recently written first, for a model's context: whoever shows it
     * to somebody else records that.
     */
    latestFacts: (userId: string): Promise<Fact[]> =>
      listFacts(db, { userId }, { limit: LATEST_FACTS }),

    /** What is known of a user in a few sentences, likewise; empty where nothing is. */
    summaryOf: async (userId: string): Promise<string> =>
      (await findSummary(db, userId))?.summary ?? '',

    /**
     * Writes a fact of the user's own: a new one, or over the value of the one of that name.
     * @param fact.sourceSessionId The conversation that it is learnt in, if any.
     * @returns The fact, and what it said before; nothing where it is new.
     * @throws ProblemError `memory_full` where a new one would be too many; `session_not_found` where the conversation
     *   was deleted meanwhile, maybe with everything of the user's; the signal's reason.
     */
    async putFact(
      user: User,
      fact: FactName & { value: string; sourceSessionId?: string },
      { signal, note }: ChangeOptions = {},
    ): Promise<{ fact: Fact; previous: string | undefined }> {
      const own = { userId: user.id, sourceSessionId: null, ...fact };
      return abortableTransaction(db, signal, async (trx) => {
        await lockMemoryOf(trx, user.id);
        if (own.sourceSessionId !== null) {
          const session = { sessionId: own.sourceSessionId, reach: { userId: user.id } };
          await requireSession(trx, session);
        }
        const { value: previous, origin } = (await findFact(trx, own)) ?? {};
        if (previous === undefined && (await countOwnFacts(trx, user.id)) >= maxFacts) {
          throw problem('memory_full', {
            detail: `You have ${maxFacts} facts, which is the most. Delete one that is not needed any more, then send this one again.`,
          });
        }
        const { category, key, value } = fact;
        if (previous !== value) {
          await note?.(trx, {
            category,
            key,
            value,
            previous: previous ?? null,
            ...(origin !== undefined && { origin }),
          });
        }
        return { fact: await writeFact(trx, own), previous };
      });
    },

    /**
     * Deletes a fact of the user's own.
     * @returns What it said.
     * @throws ProblemError `fact_not_found`; the signal's reason.
     */
    async deleteFact(
      user: User,
      { category, key }: FactName,
      { signal, note }: ChangeOptions = {},
    ): Promise<string> {
      const own = { userId: user.id, category, key };
      return abortableTransaction(db, signal, async (trx) => {
        await lockMemoryOf(trx, user.id);
        const fact = await findFact(trx, own);
        if (fact === undefined) throw problem('fact_not_found');
        const { value: previous, origin } = fact;
        await note?.(trx, { category, key, value: null, previous, origin });
        await deleteFact(trx, own);
        return previous;
      });
    },

    /**
     * The user's own summary, an empty one where there is none.
     * @throws ProblemError `permission_missing`.
     */
    async findSummary(user: User): Promise<Summary> {
      checkAccess(user, { permission: 'svc.memory.read_own' });
      const none = { user_id: user.id, summary: '', updated_at: null };
      return (await findSummary(db, user.id)) ?? none;
    },

    /**
     * The summaries of everybody that the user may see, the most recently updated first; that others'
     * are among them is recorded.
     * @returns Up to `limit`, each with its position for the next page.
     * @throws ProblemError `permission_missing`.
     */
    async listSummaries(user: User, page: Page) {
      const summaries = await listSummaries(db, memoryReach(user, { scope: 'all' }), page);
      await noteReading(user, summaries, { ownerId: null, data: 'memory_summaries' });
      return summaries;
    },
  };

  /**
   * Reads facts; where words are looked for in them, the user's next search waits for this one, and one in everybody's
   * facts has an end.
   * @throws ProblemError `validation_failed` at that end, `rate_limited`.
   */
  async function read<Result extends object>(
    user: User,
    { reach, words }: { reach: AccessScope; words: readonly string[] },
    statements: (on: Kysely<Tables>) => Promise<Result>,
  ): Promise<Result> {
    if (words.length === 0) return statements(db);
    if (typeof reach === 'object') return takeTurn(user.id, () => statements(db));
    const found = await takeTurn(user.id, () => withinTime(db, searchMs, statements));
    if (found !== undefined) return found;
    const message = `looks through more facts than ${searchMs / 1000} s suffice for: name a category as well, or at /admin/memory a user_id`;
    throw problem('validation_failed', { errors: [{ path: 'querystring/q', message }] });
  }

  async function noteReading(
    user: User,
    rows: readonly { user_id: string | null }[],
    reading: Reading,
  ): Promise<void> {
    if (rows.some(({ user_id }) => user_id !== user.id)) await recordReading(user, reading);
  }

  async function recordReading(user: User, { ownerId, data }: Reading): Promise<void> {
    await recordOthersData(db, 'others_data_read', {
      actorId: user.id,
      ownerId,
      details: { data },
    });
  }
}

/** @throws ProblemError `permission_missing`. */
function memoryReach(user: User, { scope, userId }: Asked): AccessScope {
  if (scope === 'own') {
    checkAccess(user, { permission: 'svc.memory.read_own' });
    return { userId: user.id };
  }
  checkAccess(user, { permission: 'svc.memory.read_all' });
  return userId === undefined ? accessScope(user, 'svc.memory.read_all') : { userId };
}

/**
 * The words of a search, each once.
 * @throws ProblemError `validation_failed` where there are more than `MAX_WORDS`.
 */
function toWords(text = ''): string[] {
  const words = [...new Set(text.split(/\s+/u).filter(Boolean))];
  if (words.length > MAX_WORDS) {
    const message = `must have at most ${MAX_WORDS} words`;
    throw problem('validation_failed', { errors: [{ path: 'querystring/q', message }] });
  }
  return words;
}
