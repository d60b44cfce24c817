import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { problemBody } from '@oselya/kit';
import { problem } from '../errors.ts';
import { findSessions, presentSession } from '../sessions/index.ts';
import type { TurnProcess } from './process.ts';

/** How soon a reading that failed is done again. */
const RETRY_MS = 1000;

/**
 * Tells whoever listens here of sessions whose summary was changed, by a rename or otherwise and by whichever
 * process, and ends the answers of those that were deleted: a notification says which, and the database how it is now.
 */
export function createChangeTeller({ db, hub, log }: Omit<TurnProcess, 'sender'>) {
  const changed = new Set<string>();
  const closing = new AbortController();
  let telling: Promise<void> | undefined;

  /** One reading at a time, so that what is told last is how the session is. */
  async function tellAll(): Promise<void> {
    while (changed.size > 0 && !closing.signal.aborted) {
      const ids = [...changed];
      changed.clear();
      try {
        const gone = new Set(ids);
        for (const session of await findSessions(db, ids)) {
          const { session_id } = session;
          gone.delete(session_id);
          hub.tell({ type: 'session.updated', session_id, session: presentSession(session) });
        }
        for (const id of gone) endAnswer(id);
      } catch (error) {
        log.warn({ err: error }, 'changes of sessions could not be told');
        for (const id of ids) changed.add(id);
        await sleep(RETRY_MS, undefined, { ref: false, signal: closing.signal }).catch(() => {});
      }
    }
    telling = undefined;
  }

  /** Of an answer that this process writes its listeners are told when that has stopped, and of any other here. */
  function endAnswer(sessionId: string): void {
    const turn = hub.turnOf(sessionId);
    if (turn !== undefined) return turn.stop('lost');
    const requestId = randomUUID();
    log.info({ request_id: requestId, session_id: sessionId }, 'a session that is open is gone');
    hub.endAnswer(sessionId, problemBody(problem('session_not_found'), requestId));
  }

  /** @param sessionId Which one was changed or deleted; empty where notifications may have been missed. */
  function hear(sessionId: string): void {
    if (sessionId === '') for (const id of hub.heardSessions()) changed.add(id);
    else if (hub.channelOf(sessionId) !== undefined) changed.add(sessionId);
    if (changed.size > 0) telling ??= tellAll();
  }

  return {
    /** Takes a notification of `SESSION_CHANNEL`. */
    hear,
    /** Ends when what is being read has been. */
    async close(): Promise<void> {
      closing.abort();
      await telling;
    },
  };
}
