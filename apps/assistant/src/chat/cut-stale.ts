import type { NumberedEvent } from './events.ts';
import { cutTurn } from './finish-turn.ts';
import type { TurnProcess } from './process.ts';
import { readEvents } from './turn-events.sql.ts';
import { latestTurn, LEASE_SECONDS, staleTurns, type TurnRow } from './turns.sql.ts';

/** How many turns one look cuts off. */
const BATCH = 100;

/**
 * Cuts off answers whose process has gone, so that their sessions can go on, and tells of it: whoever listens
 * here, and by a notification the other processes.
 * @param onCut Is told of each.
 */
export function createCutter({ db, hub, sender, log }: TurnProcess, onCut: () => void) {
  /** A turn of this process is its own to end, however long the database was away. */
  const isOwn = ({ id, session_id: sessionId }: TurnRow) => hub.turnOf(sessionId)?.turnId === id;
  /** While the database was away no process could say that it runs a turn; until then each has time to. */
  let believedFrom = -Infinity;

  return {
    /** The turn of a session. */
    async cutStale(sessionId: string): Promise<void> {
      const latest = await latestTurn(db, sessionId);
      if (latest === undefined || isOwn(latest)) return;
      if (latest.is_stale && performance.now() >= believedFrom) await cut(latest);
    },

    /**
     * Those of all sessions: nobody may open them again.
     * @param options.all Also those whose process is still believed to run them, since it cannot.
     */
    async cutAllStale({ all = false } = {}): Promise<void> {
      let count = 0;
      for (const turn of await findStale(all)) {
        if (isOwn(turn)) continue;
        try {
          await cut(turn);
          count += 1;
        } catch (error) {
          // The others need not wait for it.
          log.warn({ err: error, turn_id: turn.id }, 'an answer could not be cut off');
        }
      }
      if (count > 0) log.info({ count }, 'answers whose process has gone were cut off');
    },
  };

  async function findStale(all: boolean): Promise<TurnRow[]> {
    try {
      const turns = await staleTurns(db, { limit: BATCH, all });
      return performance.now() < believedFrom ? [] : turns;
    } catch (error) {
      believedFrom = performance.now() + LEASE_SECONDS * 1000;
      throw error;
    }
  }

  /** What was streamed and stored of the answer is its text. */
  async function cut({ id: turnId, session_id: sessionId, position }: TurnRow): Promise<void> {
    const told: NumberedEvent[] = [];
    let content = '';
    for (const event of await readEvents(db, { turnId, after: 0 })) {
      // Some may have been stored twice.
      if (event.seq <= (told.at(-1)?.seq ?? 0)) continue;
      told.push(event);
      if (event.type === 'message.delta') content += event.text;
    }
    const last = await db
      .transaction()
      .execute((trx) => cutTurn(trx, { turnId, sessionId }, { content, told, sender }));
    if (last.length === 0) return;
    onCut();
    hub.deliver({ turnId, sessionId, position }, last);
  }
}
