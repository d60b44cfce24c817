import { leaseIsFree, leaseIsHeld, leaseUntil } from '@oselya/db';
import { type Kysely, type NotNull, sql, type Transaction } from 'kysely';
import { lockOwner } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import { storable } from '../text.ts';
import type { Tables, TurnStatus, Unfinished } from '../tables.ts';
import { findAnswer, findMessage, findSent, insertMessage, type Message } from './messages.ts';
import { lockSession, SESSION_CHANNEL } from './session-rows.ts';
import { endSteps } from './steps.ts';

/** Notifies of new events; the payload is the id of the session. */
export const TURN_CHANNEL = 'assistant_turns';

/** How long a turn belongs to a process that does not renew its lease: its session is blocked that long after a kill. */
export const LEASE_MS = 20_000;

/** Maximum number of sessions of a user that are answered at once. */
export const MAX_TURNS = 3;

/** A turn of a session. Later turns have greater positions. */
export type TurnKey = { turnId: string; sessionId: string; position: number };

/** A turn as it is stored. */
export type TurnRow = {
  id: string;
  session_id: string;
  user_id: string;
  /** Null for a message that answers no other one. */
  question_id: string | null;
  status: TurnStatus;
  position: number;
};

const turnColumns = ['id', 'session_id', 'user_id', 'question_id', 'status', 'position'] as const;

/** Returns the newest turn of a session. */
export function latestTurn(db: Kysely<Tables>, sessionId: string): Promise<TurnRow | undefined> {
  return selectLatest(db, sessionId).executeTakeFirst();
}

function selectLatest(db: Kysely<Tables>, sessionId: string) {
  return db
    .selectFrom('chat_turns')
    .select(turnColumns)
    .where('session_id', '=', sessionId)
    .orderBy('position', 'desc')
    .limit(1);
}

/**
 * Returns running turns whose lease has expired, longest ago first.
 * @param options.all Also those whose lease is held.
 */
export function staleTurns(
  db: Kysely<Tables>,
  { sessionId, limit, all }: { sessionId?: string | undefined; limit: number; all: boolean },
): Promise<TurnRow[]> {
  let query = db
    .selectFrom('chat_turns')
    .select(turnColumns)
    .where('status', '=', 'running')
    .orderBy('lease_until')
    .limit(limit);
  if (sessionId !== undefined) query = query.where('session_id', '=', sessionId);
  if (!all) query = query.where(leaseIsFree('lease_until'));
  return query.execute();
}

/**
 * Renews the lease of a turn.
 * @returns Whether its cancellation was requested; undefined where the turn has ended.
 */
export async function renewTurn(
  db: Kysely<Tables>,
  turnId: string,
): Promise<{ isCancelled: boolean } | undefined> {
  const row = await db
    .updateTable('chat_turns')
    .set({ lease_until: leaseUntil(LEASE_MS) })
    .where('id', '=', turnId)
    .where('status', '=', 'running')
    .returning('cancel_requested')
    .executeTakeFirst();
  return row && { isCancelled: row.cancel_requested };
}

/** Asks the process that runs a turn to cancel it, by {@link SESSION_CHANNEL}. */
export async function requestCancel(db: Kysely<Tables>, turnId: string): Promise<void> {
  await sql`
    with requested as (
      update chat_turns set cancel_requested = true where id = ${turnId} and status = 'running'
      returning session_id
    )
    select pg_notify(${SESSION_CHANNEL}, session_id) from requested`.execute(db);
}

/**
 * Ends a running turn with its unfinished steps. The first process to do so decides the status.
 * @param turn.onlyStale Only if its lease has expired: it may have been renewed since it was found.
 * @returns The question; undefined where the turn was not ended.
 */
export async function endTurn(
  trx: Transaction<Tables>,
  {
    turnId,
    sessionId,
    status,
    onlyStale = false,
  }: Omit<TurnKey, 'position'> & { status: 'completed' | Unfinished; onlyStale?: boolean },
): Promise<{ question_id: string } | undefined> {
  // Sessions are locked before turns everywhere.
  await lockSession(trx, { sessionId, scope: 'everything' });
  let update = trx
    .updateTable('chat_turns')
    .set({ status, finished_at: sql<Date>`now()` })
    .where('id', '=', turnId)
    .where('status', '=', 'running');
  if (onlyStale) update = update.where(leaseIsFree('lease_until'));
  const ended = await update
    .returning('question_id')
    .$narrowType<{ question_id: NotNull }>()
    .executeTakeFirst();
  if (ended === undefined) return undefined;
  await endSteps(trx, { turnId, sessionId });
  return ended;
}

/** A turn that has begun. */
export type Begun = {
  key: TurnKey;
  question: Message;
  /** The answer that it replaces when it ends. */
  replaces?: string | undefined;
};

type Owned = { userId: string; sessionId: string };

/**
 * Stores a message, and begins its turn.
 * @param message.clientMessageId The client's name for it: a message sent again under its name is not stored again.
 * @returns For a message that was stored before, the latest turn that answers it.
 * @throws ProblemError `session_not_found`, `message_name_taken`, `turn_running` or `too_many_turns`.
 */
export function beginTurn(
  db: Kysely<Tables>,
  owned: Owned,
  { text, clientMessageId }: { text: string; clientMessageId?: string | undefined },
): Promise<Begun | { repeats: string }> {
  const { sessionId } = owned;
  return inSession(db, owned, async (trx) => {
    if (clientMessageId !== undefined) {
      const stored = await findSent(trx, { sessionId, clientMessageId });
      if (stored !== undefined) {
        if (stored.content !== storable(text)) throw problem('message_name_taken');
        const { id } = await selectLatest(trx, sessionId)
          .where('question_id', '=', stored.id)
          .executeTakeFirstOrThrow();
        return { repeats: id };
      }
    }
    await checkRoom(trx, owned);
    const message = { sessionId, turnId: null, role: 'user' as const, content: text };
    const question = await insertMessage(trx, { ...message, clientMessageId });
    return { key: await insertTurn(trx, owned, question.id), question };
  });
}

/**
 * Begins another turn for the last question of a session, whose answer is incomplete.
 * @throws ProblemError `session_not_found`, `turn_running`, `nothing_to_retry` or `too_many_turns`.
 */
export function retryTurn(db: Kysely<Tables>, owned: Owned): Promise<Begun> {
  const { sessionId } = owned;
  return inSession(db, owned, async (trx) => {
    await checkRoom(trx, owned);
    const latest = await selectLatest(trx, sessionId)
      .where('question_id', 'is not', null)
      .$narrowType<{ question_id: NotNull }>()
      .executeTakeFirst();
    if (latest === undefined || latest.status === 'completed') throw problem('nothing_to_retry');
    const question = await findMessage(trx, latest.question_id);
    if (question === undefined) throw problem('nothing_to_retry');
    const replaces = await findAnswer(trx, { sessionId, questionId: question.id });
    return { key: await insertTurn(trx, owned, question.id), question, replaces: replaces?.id };
  });
}

/** Does work while no other process begins a turn of the user or in the session. */
function inSession<Result>(
  db: Kysely<Tables>,
  { userId, sessionId }: Owned,
  work: (trx: Transaction<Tables>) => Promise<Result>,
): Promise<Result> {
  return db.transaction().execute(async (trx) => {
    await lockOwner(trx, userId);
    const session = await lockSession(trx, { sessionId, scope: { userId } });
    // It was deleted since it was checked.
    if (session === undefined) throw problem('session_not_found');
    return work(trx);
  });
}

/** Throws `turn_running` or `too_many_turns`. */
async function checkRoom(trx: Transaction<Tables>, { userId, sessionId }: Owned): Promise<void> {
  const latest = await latestTurn(trx, sessionId);
  if (latest?.status === 'running') throw problem('turn_running');
  const { count } = await trx
    .selectFrom('chat_turns')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('user_id', '=', userId)
    .where('status', '=', 'running')
    .where(leaseIsHeld('lease_until'))
    .executeTakeFirstOrThrow();
  if (count < MAX_TURNS) return;
  throw problem('too_many_turns', {
    detail: `${MAX_TURNS} of your sessions are being answered, which is the limit. Wait for one of them, then send this message again.`,
  });
}

/** Inserts a running turn. A unique index allows one for each session. */
export async function insertTurn(
  trx: Transaction<Tables>,
  { userId, sessionId }: Owned,
  questionId: string,
): Promise<TurnKey> {
  const { id, position } = await trx
    .insertInto('chat_turns')
    .values({
      session_id: sessionId,
      user_id: userId,
      question_id: questionId,
      lease_until: leaseUntil(LEASE_MS),
      finished_at: null,
    })
    .returning(['id', 'position'])
    .executeTakeFirstOrThrow();
  return { turnId: id, sessionId, position };
}

/** Inserts a turn that has ended, for a message that answers no other one. */
export async function insertEndedTurn(
  trx: Transaction<Tables>,
  { userId, sessionId }: Owned,
): Promise<TurnKey> {
  const now = sql<Date>`now()`;
  const { id, position } = await trx
    .insertInto('chat_turns')
    .values({
      session_id: sessionId,
      user_id: userId,
      question_id: null,
      status: 'completed',
      lease_until: now,
      finished_at: now,
    })
    .returning(['id', 'position'])
    .executeTakeFirstOrThrow();
  return { turnId: id, sessionId, position };
}
