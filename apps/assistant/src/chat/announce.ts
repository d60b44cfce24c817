import type { Kysely, Transaction } from 'kysely';
import { lockSession, presentMessage } from '../sessions/index.ts';
import type { Tables } from '../tables.ts';
import { insertMessage } from './messages.sql.ts';
import { insertEvents } from './turn-events.sql.ts';
import { insertEnded, latestTurn, tell } from './turns.sql.ts';

/** A message of the assistant's that nobody asked for. */
export type Announcement = {
  content: string;
  /** What models are told of it in later answers, instead of the content: nothing that strangers wrote. */
  kept: string;
};

/**
 * Who tells of announcements: no process. The one that makes them reads them from the database as the others do, after
 * the turns before them, of which it may not have read the end yet.
 */
const SENDER = 'announcement';

/**
 * Puts a message into a user's session without having been asked, as a turn of its own that has ended, and has every
 * process tell whoever has the session open there. No answer that is being written is interrupted.
 * @param compose Makes the message, in the transaction that stores it; nothing where there is nothing to say.
 * @returns What became of it: `busy` while an answer is being written, `gone` where the session is, or is not the
 *   user's.
 */
export type Announce = (
  session: { userId: string; sessionId: string },
  compose: (trx: Transaction<Tables>) => Promise<Announcement | undefined>,
) => Promise<'told' | 'nothing' | 'busy' | 'gone'>;

/** See {@link Announce}. */
export function createAnnounce(db: Kysely<Tables>): Announce {
  return ({ userId, sessionId }, compose) =>
    db.transaction().execute(async (trx) => {
      const session = await lockSession(trx, { sessionId, reach: { userId } });
      if (session === undefined) return 'gone';
      const latest = await latestTurn(trx, sessionId);
      if (latest?.status === 'running') return 'busy';
      const announcement = await compose(trx);
      if (announcement === undefined) return 'nothing';
      const { id: turnId } = await insertEnded(trx, {
        session_id: sessionId,
        user_id: userId,
      });
      const stored = await insertMessage(trx, {
        sessionId,
        turnId,
        role: 'assistant',
        unasked: true,
        ...announcement,
      });
      const event = { type: 'message.arrived' as const, message: presentMessage(stored), seq: 1 };
      await insertEvents(trx, { turnId, events: [event] });
      await tell(trx, { sessionId, sender: SENDER });
      return 'told';
    });
}
