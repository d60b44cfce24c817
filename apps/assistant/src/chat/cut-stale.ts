import { cutTurn } from './finish-turn.ts';
import type { TurnProcess } from './process.ts';
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
      if (latest.is_stale && performance.now() >= believedFrom)
        await cut(latest, { onlyStale: true });
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
          if (await cut(turn, { onlyStale: !all })) count += 1;
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

  /** @returns Whether it was cut off: its process may have ended it meanwhile, or have said that it runs it. */
  async function cut(
    { id: turnId, session_id: sessionId, position }: TurnRow,
    { onlyStale }: { onlyStale: boolean },
  ): Promise<boolean> {
    const last = await db
      .transaction()
      .execute((trx) => cutTurn(trx, { turnId, sessionId }, { sender, onlyStale }));
    if (last.length === 0) return false;
    onCut();
    hub.deliver({ turnId, sessionId, position }, last);
    return true;
  }
}
