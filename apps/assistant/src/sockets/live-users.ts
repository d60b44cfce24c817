import type { Logger } from '@oselya/kit';
import pLimit from 'p-limit';
import type { User } from '../access/user.ts';
import { problem } from '../errors.ts';
import type { Resolution } from '../identity/index.ts';
import type { SocketLimits } from './limits.ts';

/** An auth session that sockets of this process are open with. */
type LiveSession = {
  readonly id: string;
  /** Those of its sockets. */
  readonly holders: Set<Holder>;
  user: User | undefined;
  /** When the last resolution that succeeded began, and what had been heard until then. */
  checkedAt: number;
  checkedHints: number;
  /** How often it was heard that something of the user's may have changed. */
  hints: number;
  dueAt: number;
  check: Promise<void> | undefined;
  isOver: boolean;
};

/** What a socket wants to hear of its auth session. */
type Holder = {
  /** The user was resolved; at the first time, and at each time after. */
  onKnown: (user: User) => void;
  onSignedOut: () => void;
};

/** What auth sessions are asked of, as identity gives it. */
export type AuthSessions = {
  resolve: (sessionId: string) => Promise<Resolution>;
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

  /** After six to nine tenths of the time that there is, so that sessions do not stay in step. */
  const nextTurn = (from: number) => from + limits.userMaxAgeMs * (0.6 + 0.3 * Math.random());

  function hold(sessionId: string, wishes: Holder): LiveUser {
    const session = sessions.get(sessionId) ?? add(sessionId);
    // An entry of its own for each socket, whatever was given.
    const holder = { ...wishes };
    session.holders.add(holder);
    if (session.user !== undefined) holder.onKnown(session.user);
    return {
      current: () => current(session),
      release() {
        session.holders.delete(holder);
        if (session.holders.size === 0) forget(session);
      },
    };
  }

  /** It is known before it is resolved: what is heard meanwhile counts. */
  function add(id: string): LiveSession {
    const session: LiveSession = {
      id,
      holders: new Set(),
      user: undefined,
      checkedAt: -Infinity,
      checkedHints: 0,
      hints: 0,
      dueAt: performance.now(),
      check: undefined,
      isOver: false,
    };
    sessions.set(id, session);
    return session;
  }

  function forget(session: LiveSession): void {
    if (sessions.get(session.id) === session) sessions.delete(session.id);
  }

  function end(session: LiveSession): void {
    if (session.isOver) return;
    session.isOver = true;
    forget(session);
    for (const { onSignedOut } of session.holders) onSignedOut();
  }

  async function current(session: LiveSession): Promise<User> {
    const { hints } = session;
    if (!isFresh(session)) {
      await check(session);
      // That may have begun before what was heard last.
      if (session.checkedHints < hints) await check(session);
    }
    if (session.isOver || session.user === undefined) throw problem('not_signed_in');
    return session.user;
  }

  function isFresh({ user, checkedAt, checkedHints, hints }: LiveSession): boolean {
    const isOld = performance.now() - checkedAt > limits.userMaxAgeMs;
    return user !== undefined && checkedHints === hints && !isOld;
  }

  function check(session: LiveSession): Promise<void> {
    session.check ??= resolveAgain(session).finally(() => {
      session.check = undefined;
    });
    return session.check;
  }

  async function resolveAgain(session: LiveSession): Promise<void> {
    const { hints } = session;
    const began = performance.now();
    session.dueAt = began + limits.userRetryMs;
    const resolution = await resolve(session.id);
    if (resolution.status !== 'signed-in') return end(session);
    session.user = resolution.user;
    for (const { onKnown } of session.holders) onKnown(resolution.user);
    session.checkedAt = began;
    session.checkedHints = hints;
    // Where something was heard meanwhile its turn has been set by that.
    if (session.hints === hints) session.dueAt = nextTurn(began);
  }

  /** Resolves those again whose turn has come. */
  function sweep(): void {
    tellFailures();
    limit.concurrency = Math.max(
      limits.sweepConcurrency,
      Math.ceil(sessions.size * limits.sweepShare),
    );
    for (const session of sessions.values()) {
      if (!isDue(session) || turns.has(session)) continue;
      turns.add(session);
      void limit(takeTurn, session);
    }
  }

  async function takeTurn(session: LiveSession): Promise<void> {
    try {
      // A message may have had it resolved meanwhile, or its last socket may have gone.
      if (isDue(session) && sessions.has(session.id)) await check(session);
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

  const isDue = ({ dueAt }: LiveSession) => dueAt <= performance.now();

  /**
   * Takes a notification.
   * @param userId Who changed; empty for everybody, or where notifications may have been missed.
   */
  function hear(userId: string): void {
    const isEverybody = userId === '';
    const now = performance.now();
    for (const session of sessions.values()) {
      if (!isEverybody && session.user !== undefined && session.user.id !== userId) continue;
      session.hints += 1;
      // Everybody at once would be more than the provider is asked otherwise.
      session.dueAt = isEverybody ? Math.min(session.dueAt, now + spread(limits.userRetryMs)) : now;
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
        for (const session of asked) if (!found.has(session.id)) end(session);
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

const spread = (ms: number) => ms * Math.random();
