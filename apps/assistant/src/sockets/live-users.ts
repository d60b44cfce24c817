import type { Logger } from '@oselya/kit';
import pLimit from 'p-limit';
import type { User } from '../access/permissions.ts';
import type { SocketLimits } from './limits.ts';
import { type Holder, LiveSession, type LiveSessionDeps } from './live-session.ts';

/** What auth sessions are asked of, as identity gives it. */
export type AuthSessions = Pick<LiveSessionDeps, 'resolve'> & {
  /** Which of some auth sessions are there. */
  living: (sessionIds: readonly string[]) => Promise<ReadonlySet<string>>;
};

/** One socket's hold on the user of its auth session. */
export type LiveUser = {
  /**
   * The user, as resolved at most 30 s ago and after the last change that was heard of.
   * @throws ProblemError `not_signed_in`, `provider_unavailable`, or what the database throws.
   */
  current(): Promise<User>;
  release(): void;
};

/**
 * Keeps the users of live sockets current. Sockets of one auth session share what is known of it.
 *
 * - A message is judged by a user who was resolved at most 30 s ago; one who was not is resolved first.
 * - So that sockets close that nobody writes to, each session is resolved again before 30 s are over,
 *   at a moment of its own between. How many are asked for at once follows how many there are, so that a
 *   provider that takes seconds for each is in time too.
 * - On a notification (`identity/invalidation.sql.ts`) one statement finds the sessions that ended, and their
 *   sockets close at once, however many there are and whether or not the provider answers. The others
 *   are resolved again: before their next message, and in any case soon.
 *
 * A provider or database that does not answer ends nothing. Contract 3, WebSocket.
 */
export function createLiveUsers({
  resolve,
  living,
  limits,
  log,
}: AuthSessions & { limits: SocketLimits; log: Pick<Logger, 'warn'> }) {
  const sessions = new Map<string, LiveSession>();
  const hinted = new Set<LiveSession>();
  /** Sessions whose turn has come, until it is over. */
  const turns = new Set<LiveSession>();
  const limit = pLimit(limits.sweepConcurrency);
  let failures: unknown[] = [];
  let isLooking = false;
  const timer = setInterval(sweep, limits.sweepIntervalMs);
  timer.unref();

  function hold(sessionId: string, holder: Holder): LiveUser {
    const session = sessions.get(sessionId) ?? add(sessionId);
    const letGo = session.hold(holder);
    return {
      current: () => session.current(),
      release() {
        letGo();
        if (!session.isHeld) forget(session);
      },
    };
  }

  /** It is known before it is resolved: what is heard meanwhile counts. */
  function add(id: string): LiveSession {
    const session = new LiveSession(id, { resolve, limits, onEnd: forget });
    sessions.set(id, session);
    return session;
  }

  function forget(session: LiveSession): void {
    if (sessions.get(session.id) === session) sessions.delete(session.id);
  }

  /** Resolves those again whose turn has come. */
  function sweep(): void {
    tellFailures();
    limit.concurrency = Math.max(
      limits.sweepConcurrency,
      Math.ceil(sessions.size * limits.sweepShare),
    );
    for (const session of sessions.values()) {
      if (!session.isDue || turns.has(session)) continue;
      turns.add(session);
      void limit(takeTurn, session);
    }
  }

  async function takeTurn(session: LiveSession): Promise<void> {
    try {
      // A message may have had it resolved meanwhile, or its last socket may have gone.
      if (session.isDue && sessions.has(session.id)) await session.check();
    } catch (error) {
      failures.push(error);
    }
    turns.delete(session);
    if (turns.size === 0) tellFailures();
  }

  /** One line for all that failed since the last one: there may be thousands while a provider is down. */
  function tellFailures(): void {
    if (failures.length === 0) return;
    log.warn({ err: failures[0], sessions: failures.length }, 'live users could not be resolved');
    failures = [];
  }

  /**
   * Takes a notification.
   * @param userId Who changed; empty for everybody, or where notifications may have been missed.
   */
  function hear(userId: string): void {
    const isEverybody = userId === '';
    for (const session of sessions.values()) {
      if (!isEverybody && session.user !== undefined && session.user.id !== userId) continue;
      // Everybody at once would be more than the provider is asked otherwise.
      session.hint(isEverybody ? limits.userRetryMs * Math.random() : 0);
      hinted.add(session);
    }
    void look();
  }

  /** Ends the sessions that are gone; what is heard meanwhile is looked at together, after it. */
  async function look(): Promise<void> {
    if (isLooking) return;
    isLooking = true;
    try {
      while (hinted.size > 0) {
        const asked = [...hinted];
        hinted.clear();
        const found = await living(asked.map(({ id }) => id));
        for (const session of asked) if (!found.has(session.id)) session.end();
      }
    } catch (error) {
      // They are due: the next sweep finds out for each of them.
      log.warn({ err: error }, 'ended sessions could not be looked for');
    }
    isLooking = false;
    sweep();
  }

  return {
    hold,
    hear,
    /** How many auth sessions are watched. */
    get size() {
      return sessions.size;
    },
    stop: () => clearInterval(timer),
  };
}
