import type { Kysely, Transaction } from 'kysely';
import { lockOwner } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import { lockSession, type Message } from '../sessions/index.ts';
import { storable } from '../text.ts';
import type { Tables } from '../tables.ts';
import { findAnswer, findMessage, findSent, insertMessage } from './messages.sql.ts';
import type { TurnKey } from './turn.ts';
import { countRunning, insertTurn, latestAsked, latestTurn, latestTurnOf } from './turns.sql.ts';

/** How many of a user's sessions may be answered at once. */
export const MAX_TURNS = 3;

/** A turn that has begun, and what it answers. */
export type Begun = {
  key: TurnKey;
  question: Message;
  /** The answer that it takes the place of once it has ended. */
  replaces?: string | undefined;
  /** The place of the turn before it in the session; 0 where it is the first. */
  before: number;
};

/** A message that is stored already: which turn answers it, the newest where it was tried again. */
export type Repeated = { repeats: string };

/** Whose session. */
type Owned = { userId: string; sessionId: string };

/**
 * Stores a message, and that it is going to be answered.
 * @param clientMessageId The client's name for it: sent again under the same name it is the same message.
 * @returns For a message that is stored already, what answers it.
 * @throws ProblemError `message_name_taken`, `turn_running` or `too_many_turns`.
 */
export function beginTurn(
  db: Kysely<Tables>,
  owned: Owned,
  { text, clientMessageId }: { text: string; clientMessageId?: string | undefined },
): Promise<Begun | Repeated> {
  const { sessionId } = owned;
  return inSession(db, owned, async (trx) => {
    if (clientMessageId !== undefined) {
      const sent = await findSent(trx, { sessionId, clientMessageId });
      if (sent !== undefined) {
        if (sent.content !== storable(text)) throw problem('message_name_taken');
        return { repeats: await latestTurnOf(trx, { sessionId, questionId: sent.id }) };
      }
    }
    const before = await refuseSecond(trx, owned);
    const message = { sessionId, turnId: null, role: 'user' as const, content: text };
    const question = await insertMessage(trx, { ...message, clientMessageId });
    return { key: await begin(trx, owned, question), question, before };
  });
}

/**
 * Begins to answer the last message of a session again, in the place of an answer that is not complete.
 * @throws ProblemError `turn_running`, `nothing_to_retry` or `too_many_turns`.
 */
export function beginAgain(db: Kysely<Tables>, owned: Owned): Promise<Begun> {
  const { sessionId } = owned;
  return inSession(db, owned, async (trx) => {
    const before = await refuseSecond(trx, owned);
    // What came by itself meanwhile is no reason not to.
    const latest = await latestAsked(trx, sessionId);
    if (latest === undefined || latest.status === 'completed') throw problem('nothing_to_retry');
    const question = await findMessage(trx, latest.question_id);
    if (question === undefined) throw problem('nothing_to_retry');
    const replaces = await findAnswer(trx, { sessionId, questionId: question.id });
    const key = await begin(trx, owned, question);
    return { key, question, replaces: replaces?.id, before };
  });
}

/** Of several that begin at once, on however many processes, one comes after the other. */
function inSession<Result>(
  db: Kysely<Tables>,
  { userId, sessionId }: Owned,
  work: (trx: Transaction<Tables>) => Promise<Result>,
): Promise<Result> {
  return db.transaction().execute(async (trx) => {
    await lockOwner(trx, userId);
    const session = await lockSession(trx, { sessionId, reach: { userId } });
    // It was deleted since it was looked at.
    if (session === undefined) throw problem('session_not_found');
    return work(trx);
  });
}

/**
 * @returns The place of the newest turn of the session; 0 where it has none.
 * @throws ProblemError `turn_running` or `too_many_turns`.
 */
async function refuseSecond(
  trx: Transaction<Tables>,
  { userId, sessionId }: Owned,
): Promise<number> {
  const latest = await latestTurn(trx, sessionId);
  if (latest?.status === 'running') throw problem('turn_running');
  if ((await countRunning(trx, userId)) >= MAX_TURNS) {
    throw problem('too_many_turns', {
      detail: `${MAX_TURNS} of your sessions are being answered, which is the most. Wait for one of them, then send this one again.`,
    });
  }
  return latest?.position ?? 0;
}

async function begin(
  trx: Transaction<Tables>,
  { userId, sessionId }: Owned,
  question: Message,
): Promise<TurnKey> {
  const { id, position } = await insertTurn(trx, {
    session_id: sessionId,
    user_id: userId,
    question_id: question.id,
  });
  return { turnId: id, sessionId, position };
}
