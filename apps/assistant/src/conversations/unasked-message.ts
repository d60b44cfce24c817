import type { Kysely, Transaction } from 'kysely';
import type { Tables } from '../tables.ts';
import { insertEvents } from './event-log.ts';
import { insertMessage } from './messages.ts';
import { presentMessage } from './schemas.ts';
import { lockSession } from './session-rows.ts';
import { findLatestTurn, insertTurn } from './turns.ts';

/** A message without a question, such as a digest. */
export type UnaskedMessage = {
  content: string;
  /** The form of the message that the model gets in later turns. It contains no third-party text. */
  kept: string;
};

/**
 * Adds a message to a user's session as a separate, completed turn.
 * @param compose Composes the message inside the transaction that stores it. Returns undefined to send nothing.
 * @returns Whether a message was sent. None is sent while an answer is running, or if the user has no such session.
 */
export function sendUnaskedMessage(
  db: Kysely<Tables>,
  ownedSession: { userId: string; sessionId: string },
  compose: (trx: Transaction<Tables>) => Promise<UnaskedMessage | undefined>,
): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    const { userId, sessionId } = ownedSession;
    const session = await lockSession(trx, { sessionId, scope: { userId } });
    if (session === undefined) return false;
    if ((await findLatestTurn(trx, sessionId))?.status === 'running') return false;
    const unaskedMessage = await compose(trx);
    if (unaskedMessage === undefined) return false;
    const turn = await insertTurn(trx, ownedSession, null);
    const newMessage = {
      sessionId,
      turnId: turn.turnId,
      role: 'assistant' as const,
      unasked: true,
    };
    const message = presentMessage(await insertMessage(trx, { ...newMessage, ...unaskedMessage }));
    await insertEvents(trx, turn, [{ type: 'message.arrived', message, seq: 1 }]);
    return true;
  });
}
