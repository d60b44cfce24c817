import { setTimeout as sleep } from 'node:timers/promises';
import type { TurnProcess } from './process.ts';
import type { TurnKey } from './turn.ts';
import { readEvents } from './turn-events.sql.ts';
import { latestTurn, turnsFrom } from './turns.sql.ts';

/** How soon a reading that failed is done again. */
const RETRY_MS = 1000;

/** How long a turn that begins here waits for what was before it: its process is believed to run it for longer. */
const CATCH_UP_MS = 2000;

/**
 * Follows the turns that other processes run, in sessions that somebody listens to here: a notification says
 * that there is something new, and it is read from the database.
 * @param renew Looks in the database whether the turns of this process are to go on.
 */
export function createFollower({ db, hub, sender, log }: TurnProcess, renew: () => void) {
  const reading = new Map<string, Promise<void>>();
  const again = new Set<string>();
  /** Sessions in which there is something after a turn that this process runs. */
  const held = new Set<string>();
  let isClosing = false;

  /** @param payload Who tells, and of which session; empty where notifications may have been missed. */
  function hear(payload: string): void {
    if (payload === '') {
      for (const sessionId of hub.heardSessions()) follow(sessionId);
      return;
    }
    const [from, sessionId = ''] = splitOnce(payload);
    if (from === sender) return;
    // Somebody elsewhere may have cancelled a turn of ours.
    if (hub.turnOf(sessionId) !== undefined) renew();
    if (hub.channelOf(sessionId) !== undefined) follow(sessionId);
  }

  /** One reading of a session at a time; what is heard meanwhile is read after it. */
  function follow(sessionId: string): void {
    again.add(sessionId);
    if (reading.has(sessionId)) return;
    reading.set(sessionId, readAll(sessionId));
  }

  async function readAll(sessionId: string): Promise<void> {
    while (again.delete(sessionId)) {
      try {
        await read(sessionId);
      } catch (error) {
        log.warn({ err: error }, 'a session could not be followed');
        // What was told of is still to be read.
        again.add(sessionId);
        await sleep(RETRY_MS, undefined, { ref: false });
        if (isClosing || hub.channelOf(sessionId) === undefined) again.delete(sessionId);
      }
    }
    // In one step with the last look at `again`, so that what is heard from now on begins another one.
    reading.delete(sessionId);
  }

  async function read(sessionId: string): Promise<void> {
    const channel = hub.channelOf(sessionId);
    if (channel === undefined) return;
    const { place } = channel;
    // What this process ran since was told without being read.
    const isPast = place !== undefined && hub.hasTold({ sessionId, position: place.position });
    const position =
      (isPast ? undefined : place?.position) ??
      hub.toldPosition(sessionId) ??
      (await latestTurn(db, sessionId))?.position;
    if (position === undefined) return;
    for (const turn of await turnsFrom(db, { sessionId, position })) {
      // Its listeners are told of its end by itself, and of what comes after it then.
      if (hub.turnOf(sessionId)?.turnId === turn.id) {
        held.add(sessionId);
        return;
      }
      const after = turn.position === place?.position ? place.seq : 0;
      const events = await readEvents(db, { turnId: turn.id, after });
      hub.deliver({ turnId: turn.id, sessionId, position: turn.position }, events);
      channel.place = { position: turn.position, seq: events.at(-1)?.seq ?? after };
    }
  }

  return {
    hear,
    /**
     * Tells whoever listens here of what other processes did in a session up to a turn: when a later one has begun to be
     * told they are not told of those before it any more. Where it cannot be read for so long the later one is not kept
     * waiting, and they miss it.
     */
    async catchUp({ sessionId, position }: Omit<TurnKey, 'turnId'>): Promise<void> {
      const channel = hub.channelOf(sessionId);
      if (channel === undefined || hub.hasTold({ sessionId, position })) return;
      const told = hub.toldPosition(sessionId) ?? position;
      channel.place ??= { position: Math.min(told, position), seq: 0 };
      follow(sessionId);
      const isRead = await Promise.race([
        reading.get(sessionId)?.then(() => true),
        sleep(CATCH_UP_MS, false, { ref: false }),
      ]);
      if (isRead === false) {
        log.warn({ session_id: sessionId }, 'a turn begins before what was before it is told');
      }
    },
    /** Goes on with a session after a turn that this process ran. */
    goOn(sessionId: string): void {
      if (held.delete(sessionId) && hub.channelOf(sessionId) !== undefined) follow(sessionId);
    },
    /** Ends when what is being read has been. */
    async close() {
      isClosing = true;
      await Promise.all(reading.values());
    },
  };
}

function splitOnce(text: string): [string, string?] {
  const at = text.indexOf(' ');
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}
