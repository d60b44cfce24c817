import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { cutTurn } from './finish-turn.ts';
import { latestTurn, readEvents, staleTurns, type TurnRow } from './turns.sql.ts';

/** How many turns one look cuts off. */
const BATCH = 100;

/**
 * Cuts off the turn of a session whose process has gone, so that the session can go on.
 * @param sender Of this process: the others are told.
 */
export async function cutStale(
  db: Kysely<Tables>,
  { sessionId, sender }: { sessionId: string; sender: string },
): Promise<void> {
  const latest = await latestTurn(db, sessionId);
  if (latest?.is_stale === true) await cut(db, latest, sender);
}

/** As `cutStale`, in all sessions: nobody may open them again. */
export async function cutAllStale(db: Kysely<Tables>, sender: string): Promise<number> {
  const stale = await staleTurns(db, BATCH);
  for (const turn of stale) await cut(db, turn, sender);
  return stale.length;
}

/** What was streamed and stored of the answer is its text. */
async function cut(db: Kysely<Tables>, turn: TurnRow, sender: string): Promise<void> {
  const { id: turnId, session_id: sessionId } = turn;
  const events = await readEvents(db, { turnId, after: 0 });
  let content = '';
  let seq = 0;
  for (const event of events) {
    // Some may have been stored twice.
    if (event.seq <= seq) continue;
    seq = event.seq;
    if (event.type === 'message.delta') content += event.text;
  }
  await db
    .transaction()
    .execute((trx) => cutTurn(trx, { turnId, sessionId }, { content, seq: seq + 1, sender }));
}
