import type { ModelClient } from '@oselya/model';
import { type Kysely, sql } from 'kysely';
import { makeTitle } from '../agent/index.ts';
import { findSession, presentSession } from '../sessions/index.ts';
import type { Tables } from '../tables.ts';
import type { Turn } from './turn.ts';
import { insertEvents } from './turn-events.sql.ts';
import { tell } from './turns.sql.ts';

/** A title is worth no longer wait. */
const TITLE_MS = 30_000;

/**
 * Gives a session that has no name one by its first message, unless its owner names it meanwhile, and tells
 * whoever listens.
 * @throws ModelError, and what the database throws.
 */
export async function nameSession(
  {
    db,
    model,
    sender,
    signal: closing,
  }: {
    db: Kysely<Tables>;
    model: Pick<ModelClient, 'streamChat'>;
    sender: string;
    signal: AbortSignal;
  },
  turn: Turn,
  { text, modelName }: { text: string; modelName: string },
): Promise<void> {
  const { turnId, sessionId } = turn;
  const signal = AbortSignal.any([closing, AbortSignal.timeout(TITLE_MS)]);
  const name = await makeTitle(model, { text, modelName, signal });
  if (name === '') return;
  const named = await db
    .updateTable('conversation_sessions')
    .set({ name })
    .where('id', '=', sessionId)
    .where(sql<boolean>`coalesce(name, '') = ''`)
    .returning('id')
    .executeTakeFirst();
  if (named === undefined) return;
  const session = await findSession(db, { sessionId, reach: 'everything' });
  if (session === undefined) return;
  const event = turn.add({ type: 'session.updated', session: presentSession(session) });
  await db.transaction().execute(async (trx) => {
    await insertEvents(trx, { turnId, events: [event] });
    await tell(trx, { sessionId, sender });
  });
}
