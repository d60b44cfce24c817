import { isLeaseFree, isLeaseHeld, leaseExpiry } from '@oselya/db';
import { type Kysely, type NotNull, sql, type Transaction } from 'kysely';
import { lockOwner } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import { toStorableText } from '../text.ts';
import type { Tables, TurnStatus, IncompleteTurnStatus } from '../tables.ts';
import { findAnswer, findMessage, insertMessage, type Message } from './messages.ts';
import { lockSession, SESSION_CHANNEL } from './session-rows.ts';
import { endSteps } from './steps.ts';

/** Channel for new turn events. The payload is the session ID. */
export const TURN_CHANNEL = 'assistant_turns';

/** Lease duration. After a crash, the session stays blocked until the lease expires or an exclusive process starts. */
export const LEASE_MS = 20_000;

const MAX_RUNNING_TURNS = 3;

/** The key of a turn. Positions of a session's turns increase over time. */
export type TurnKey = { turnId: string; sessionId: string; position: number };

/** Row of `chat_turns`. The turn of an unasked message has no question. */
export type TurnRow = {
  id: string;
  session_id: string;
  question_id: string | null;
  status: TurnStatus;
  position: number;
};

const turnColumns = ['id', 'session_id', 'question_id', 'status', 'position'] as const;

/** Returns the newest turn of a session; undefined if it has none. */
export const findLatestTurn = (
  db: Kysely<Tables>,
  sessionId: string,
): Promise<TurnRow | undefined> => selectLatestTurn(db, sessionId).executeTakeFirst();

const selectLatestTurn = (db: Kysely<Tables>, sessionId: string) =>
  db
    .selectFrom('chat_turns')
    .select(turnColumns)
    .where('session_id', '=', sessionId)
    .orderBy('position', 'desc')
    .limit(1);

/** Returns the status of a turn; undefined if its session was deleted. */
export async function findTurnStatus(
  db: Kysely<Tables>,
  turnId: string,
): Promise<TurnStatus | undefined> {
  const query = db.selectFrom('chat_turns').select('status').where('id', '=', turnId);
  return (await query.executeTakeFirst())?.status;
}

/**
 * Returns at most `limit` running turns with an expired lease, the longest expired first.
 * @param options.includesActive Whether to include turns with a valid lease.
 */
export function findStaleTurns(
  db: Kysely<Tables>,
  {
    sessionId,
    limit,
    includesActive,
  }: { sessionId?: string | undefined; limit: number; includesActive: boolean },
): Promise<TurnRow[]> {
  let query = db
    .selectFrom('chat_turns')
    .select(turnColumns)
    .where('status', '=', 'running')
    .orderBy('lease_until')
    .limit(limit);
  if (sessionId !== undefined) query = query.where('session_id', '=', sessionId);
  if (!includesActive) query = query.where(isLeaseFree('lease_until'));
  return query.execute();
}

/**
 * Renews the lease of a turn.
 * @returns Whether a cancellation was requested; undefined if the turn has ended or was deleted.
 */
export async function renewTurn(
  db: Kysely<Tables>,
  turnId: string,
): Promise<{ isCancelled: boolean } | undefined> {
  const row = await db
    .updateTable('chat_turns')
    .set({ lease_until: leaseExpiry(LEASE_MS) })
    .where('id', '=', turnId)
    .where('status', '=', 'running')
    .returning('cancel_requested')
    .executeTakeFirst();
  return row && { isCancelled: row.cancel_requested };
}

/** Requests the cancellation of a turn, and notifies its process on {@link SESSION_CHANNEL}. */
export async function requestCancel(db: Kysely<Tables>, turnId: string): Promise<void> {
  await sql`
    with requested as (
      update chat_turns set cancel_requested = true where id = ${turnId} and status = 'running'
      returning session_id
    )
    select pg_notify(${SESSION_CHANNEL}, session_id) from requested`.execute(db);
}

/**
 * Ends a running turn and its unfinished steps. Only the first call for a turn sets the status.
 * @param turn.isStaleOnly Whether to end only a turn whose lease has expired. A lease may have been renewed since the
 *   turn was found.
 * @returns The ID of the question; undefined if the turn was not ended.
 */
export async function endTurn(
  trx: Transaction<Tables>,
  {
    turnId,
    sessionId,
    status,
    isStaleOnly = false,
  }: Omit<TurnKey, 'position'> & {
    status: 'completed' | IncompleteTurnStatus;
    isStaleOnly?: boolean;
  },
): Promise<{ question_id: string } | undefined> {
  // Every transaction locks sessions before turns, which prevents deadlocks.
  await lockSession(trx, { sessionId, scope: 'everything' });
  let update = trx
    .updateTable('chat_turns')
    .set({ status, finished_at: sql<Date>`now()` })
    .where('id', '=', turnId)
    .where('status', '=', 'running');
  if (isStaleOnly) update = update.where(isLeaseFree('lease_until'));
  const endedTurn = await update
    .returning('question_id')
    .$narrowType<{ question_id: NotNull }>()
    .executeTakeFirst();
  if (endedTurn === undefined) return undefined;
  await endSteps(trx, { turnId, sessionId });
  return endedTurn;
}

export type StartedTurn = {
  key: TurnKey;
  question: Message;
  /** ID of the previous answer, which the new answer replaces. */
  replacedAnswerId?: string | undefined;
};

type OwnedSession = { userId: string; sessionId: string };

/**
 * Stores a message and begins its turn.
 * @param message.clientMessageId Idempotency key of the message.
 * @returns The new turn, or the ID of the latest turn of a message that was stored before.
 * @throws ProblemError `session_not_found`, `message_name_taken`, `turn_running` or `too_many_turns`.
 */
export function beginTurn(
  db: Kysely<Tables>,
  ownedSession: OwnedSession,
  { text, clientMessageId }: { text: string; clientMessageId?: string | undefined },
): Promise<StartedTurn | { repeatedTurnId: string }> {
  const { sessionId } = ownedSession;
  return runInLockedSession(db, ownedSession, async (trx) => {
    if (clientMessageId !== undefined) {
      const storedMessage = await findMessage(trx, { sessionId, clientMessageId });
      if (storedMessage !== undefined) {
        if (storedMessage.content !== toStorableText(text)) throw problem('message_name_taken');
        const { id } = await selectLatestTurn(trx, sessionId)
          .where('question_id', '=', storedMessage.id)
          .executeTakeFirstOrThrow();
        return { repeatedTurnId: id };
      }
    }
    await checkTurnLimits(trx, ownedSession);
    const message = { sessionId, turnId: null, role: 'user' as const, content: text };
    const question = await insertMessage(trx, { ...message, clientMessageId });
    return { key: await insertTurn(trx, ownedSession, question.id), question };
  });
}

/**
 * Begins a new turn for the last question of a session if its answer is incomplete.
 * @throws ProblemError `session_not_found`, `turn_running`, `nothing_to_retry` or `too_many_turns`.
 */
export function retryTurn(db: Kysely<Tables>, ownedSession: OwnedSession): Promise<StartedTurn> {
  const { sessionId } = ownedSession;
  return runInLockedSession(db, ownedSession, async (trx) => {
    await checkTurnLimits(trx, ownedSession);
    const latestTurn = await selectLatestTurn(trx, sessionId)
      .where('question_id', 'is not', null)
      .$narrowType<{ question_id: NotNull }>()
      .executeTakeFirst();
    if (latestTurn === undefined || latestTurn.status === 'completed')
      throw problem('nothing_to_retry');
    const question = await findMessage(trx, { id: latestTurn.question_id });
    if (question === undefined) throw problem('nothing_to_retry');
    const replacedAnswer = await findAnswer(trx, { sessionId, questionId: question.id });
    return {
      key: await insertTurn(trx, ownedSession, question.id),
      question,
      replacedAnswerId: replacedAnswer?.id,
    };
  });
}

/** Runs work in a transaction that locks the user and the session, so that no other turn of either can begin. */
function runInLockedSession<Result>(
  db: Kysely<Tables>,
  { userId, sessionId }: OwnedSession,
  work: (trx: Transaction<Tables>) => Promise<Result>,
): Promise<Result> {
  return db.transaction().execute(async (trx) => {
    await lockOwner(trx, userId);
    const session = await lockSession(trx, { sessionId, scope: { userId } });
    // The session was deleted after the access check.
    if (session === undefined) throw problem('session_not_found');
    return work(trx);
  });
}

/** Checks that a new turn may begin. @throws ProblemError `turn_running` or `too_many_turns`. */
async function checkTurnLimits(
  trx: Transaction<Tables>,
  { userId, sessionId }: OwnedSession,
): Promise<void> {
  const latestTurn = await findLatestTurn(trx, sessionId);
  if (latestTurn?.status === 'running') throw problem('turn_running');
  const { count } = await trx
    .selectFrom('chat_turns')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('user_id', '=', userId)
    .where('status', '=', 'running')
    .where(isLeaseHeld('lease_until'))
    .executeTakeFirstOrThrow();
  if (count < MAX_RUNNING_TURNS) return;
  throw problem('too_many_turns', {
    detail: `${MAX_RUNNING_TURNS} of your sessions are being answered, which is the limit. Wait for one of them, then send this message again.`,
  });
}

/**
 * Inserts a turn. A unique index allows one running turn per session.
 * @param questionId Null for an unasked message, whose turn is complete from the start.
 */
export async function insertTurn(
  trx: Transaction<Tables>,
  { userId, sessionId }: OwnedSession,
  questionId: string | null,
): Promise<TurnKey> {
  const isRunning = questionId !== null;
  const { id, position } = await trx
    .insertInto('chat_turns')
    .values({
      session_id: sessionId,
      user_id: userId,
      question_id: questionId,
      status: isRunning ? 'running' : 'completed',
      lease_until: isRunning ? leaseExpiry(LEASE_MS) : sql<Date>`now()`,
      finished_at: isRunning ? null : sql<Date>`now()`,
    })
    .returning(['id', 'position'])
    .executeTakeFirstOrThrow();
  return { turnId: id, sessionId, position };
}
