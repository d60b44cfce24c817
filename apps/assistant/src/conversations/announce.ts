import type { Kysely, Transaction } from 'kysely';
import type { Tables } from '../tables.ts';
import { insertEvents } from './event-log.ts';
import { insertMessage } from './messages.ts';
import { presentMessage } from './schemas.ts';
import { lockSession } from './session-rows.ts';
import { findLatestTurn, insertTurn } from './turns.ts';

/** A message without a question, such as a digest. */
export type Announcement = {
  content: string;
  /** The form of the message that the model gets in later turns. It contains no third-party text. */
  kept: string;
};

/**
 * Adds a message to a user's session as a separate, completed turn.
 * @param compose Composes the message inside the transaction that stores it. Returns undefined to send nothing.
 * @returns `nothing` without a message; `busy` while an answer runs; `gone` if the user has no such session.
 */
export type AnnounceMessage = (
  session: { userId: string; sessionId: string },
  compose: (trx: Transaction<Tables>) => Promise<Announcement | undefined>,
) => Promise<'announced' | 'nothing' | 'busy' | 'gone'>;

/** Creates the {@link AnnounceMessage} function. */
export function createAnnouncer(db: Kysely<Tables>): AnnounceMessage {
  return (ownedSession, compose) =>
    db.transaction().execute(async (trx) => {
      const { userId, sessionId } = ownedSession;
      const session = await lockSession(trx, { sessionId, scope: { userId } });
      if (session === undefined) return 'gone';
      if ((await findLatestTurn(trx, sessionId))?.status === 'running') return 'busy';
      const announcement = await compose(trx);
      if (announcement === undefined) return 'nothing';
      const turn = await insertTurn(trx, ownedSession, null);
      const { turnId } = turn;
      const newMessage = { sessionId, turnId, role: 'assistant' as const, unasked: true };
      const message = presentMessage(await insertMessage(trx, { ...newMessage, ...announcement }));
      await insertEvents(trx, turn, [{ type: 'message.arrived', message, seq: 1 }]);
      return 'announced';
    });
}
