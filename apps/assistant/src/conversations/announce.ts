import type { Kysely, Transaction } from 'kysely';
import type { Tables } from '../tables.ts';
import { insertEvents } from './event-log.ts';
import { insertMessage } from './messages.ts';
import { presentMessage } from './schemas.ts';
import { lockSession } from './session-rows.ts';
import { insertEndedTurn, latestTurn } from './turns.ts';

/** A message of the assistant that answers no other one. */
export type Announcement = {
  content: string;
  /** Content for models in later answers, without texts of strangers. */
  kept: string;
};

/**
 * Adds a message to a user's session as a separate, ended turn, never during an answer.
 * @param compose Composes the message in the transaction that stores it; undefined if there is nothing to say.
 * @returns `busy` during an answer, `gone` where the user has no such session.
 */
export type Announce = (
  session: { userId: string; sessionId: string },
  compose: (trx: Transaction<Tables>) => Promise<Announcement | undefined>,
) => Promise<'told' | 'nothing' | 'busy' | 'gone'>;

/** Creates the function that announces messages. See {@link Announce}. */
export function createAnnounce(db: Kysely<Tables>): Announce {
  return (owned, compose) =>
    db.transaction().execute(async (trx) => {
      const { userId, sessionId } = owned;
      const session = await lockSession(trx, { sessionId, scope: { userId } });
      if (session === undefined) return 'gone';
      if ((await latestTurn(trx, sessionId))?.status === 'running') return 'busy';
      const announcement = await compose(trx);
      if (announcement === undefined) return 'nothing';
      const turn = await insertEndedTurn(trx, owned);
      const { turnId } = turn;
      const message = { sessionId, turnId, role: 'assistant' as const, unasked: true };
      const stored = await insertMessage(trx, { ...message, ...announcement });
      const event = { type: 'message.arrived' as const, message: presentMessage(stored), seq: 1 };
      await insertEvents(trx, turn, [event]);
      return 'told';
    });
}
