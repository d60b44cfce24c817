import type { Transaction } from 'kysely';
import { lockSession, presentMessage } from '../sessions/index.ts';
import type { Tables } from '../tables.ts';
import { insertMessage } from './messages.sql.ts';
import type { TurnProcess } from './process.ts';
import { insertEvents } from './turn-events.sql.ts';
import { insertEnded, latestTurn, tell } from './turns.sql.ts';

/** A message of the assistant's that nobody asked for. */
export type Announcement = {
  content: string;
  /** What models are told of it in later answers, instead of the content: nothing that strangers wrote. */
  kept: string;
};

/**
 * Puts a message into a user's session without having been asked, as a turn of its own that has ended, and tells
 * whoever has the session open, on every process. An answer that is being written is never interrupted.
 * @param compose Makes the message, in the transaction that stores it; nothing where there is nothing to say.
 * @returns What became of it: `busy` while an answer is being written, `gone` where the session is, or is not the
 *   user's.
 */
export type Announce = (
  session: { userId: string; sessionId: string },
  compose: (trx: Transaction<Tables>) => Promise<Announcement | undefined>,
) => Promise<'told' | 'nothing' | 'busy' | 'gone'>;

/** See {@link Announce}. */
export function createAnnounce({ db, hub, sender }: Omit<TurnProcess, 'log'>): Announce {
  return async ({ userId, sessionId }, compose) => {
    const outcome = await db.transaction().execute(async (trx) => {
      const session = await lockSession(trx, { sessionId, reach: { userId } });
      if (session === undefined) return 'gone';
      const latest = await latestTurn(trx, sessionId);
      // A turn of this process may have ended in the database, and its listeners not been told yet.
      if (latest?.status === 'running' || hub.turnOf(sessionId) !== undefined) return 'busy';
      const announcement = await compose(trx);
      if (announcement === undefined) return 'nothing';
      const { id: turnId, position } = await insertEnded(trx, {
        session_id: sessionId,
        user_id: userId,
      });
      const stored = await insertMessage(trx, {
        sessionId,
        turnId,
        role: 'assistant',
        ...announcement,
      });
      const message = presentMessage(stored);
      const event = { type: 'message.arrived' as const, message, seq: 1 };
      await insertEvents(trx, { turnId, events: [event] });
      await tell(trx, { sessionId, sender });
      return { key: { turnId, sessionId, position }, event };
    });
    if (typeof outcome === 'string') return outcome;
    hub.deliver(outcome.key, [outcome.event]);
    return 'told';
  };
}
