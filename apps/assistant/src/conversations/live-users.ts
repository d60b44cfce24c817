import type { Logger } from '@oselya/kit';
import pLimit from 'p-limit';
import type { KnownUser, User } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import type { Resolution, ResolveSession } from '../identity/current-user.ts';

/** Limits of keeping users current. */
export const liveUserLimits = {
  /** Maximum age of the resolution of a user who sends a message. */
  userMaxAgeMs: 30_000,
  /** Pause after a failed resolution. */
  userRetryMs: 5_000,
  /** Interval at which due sessions are looked for. */
  sweepIntervalMs: 1_000,
  /** Minimum number of users that are resolved at once. */
  sweepConcurrency: 8,
  /** Share of all users that are resolved at once: with 5 s for each, all take 20 s. */
  sweepShare: 1 / 4,
};
type Limits = typeof liveUserLimits;

/** Auth sessions, as identity resolves them. */
export type AuthSessions = {
  resolve: ResolveSession;
  /** Returns those of some auth sessions that exist. */
  living: (sessionIds: readonly string[]) => Promise<ReadonlySet<string>>;
};

/** A hold on the user of an auth session. */
export type LiveUser = {
  /**
   * Returns the user as resolved at most 30 s ago, and after the last known change.
   * @throws ProblemError `not_signed_in` or `provider_unavailable`; what the database throws.
   */
  current(): Promise<User>;
  release(): void;
};

/** Callbacks of a hold. `onKnown` gets each resolution of the user. */
export type Holder = { onKnown: (user: User) => void; onSignedOut: () => void };

/** An auth session with open sockets in this process. */
class LiveSession {
  readonly id: string;
  readonly holders = new Set<Holder>();
  user: User | undefined;
  dueAt = performance.now();
  readonly #resolve: ResolveSession;
  readonly #limits: Limits;
  #known: KnownUser | undefined;
  /** Start of the last successful resolution, and the number of known changes by then. */
  #checkedAt = -Infinity;
  #checkedChanges = 0;
  #changes = 0;
  #check: Promise<void> | undefined;
  #isOver = false;

  constructor(id: string, resolve: ResolveSession, limits: Limits) {
    this.id = id;
    this.#resolve = resolve;
    this.#limits = limits;
  }

  /** See {@link LiveUser}. One statement finds a revocation whose notification was late or lost. */
  async current(): Promise<User> {
    const changes = this.#changes;
    const isOld = performance.now() - this.#checkedAt > this.#limits.userMaxAgeMs;
    if (this.#known === undefined || isOld || this.#checkedChanges !== changes) {
      await this.check();
      // The check may have begun before the last change.
      if (this.#checkedChanges < changes) await this.check();
    }
    if (!this.#isOver && this.#known !== undefined) {
      this.#take(await this.#resolve(this.id, this.#known));
    }
    if (this.#isOver || this.#known === undefined) throw problem('not_signed_in');
    return this.#known.user;
  }

  /** Resolves the user, or waits for the resolution in progress. */
  check(): Promise<void> {
    this.#check ??= this.#resolveAgain().finally(() => {
      this.#check = undefined;
    });
    return this.#check;
  }

  async #resolveAgain(): Promise<void> {
    const changes = this.#changes;
    const startedAt = performance.now();
    this.dueAt = startedAt + this.#limits.userRetryMs;
    this.#take(await this.#resolve(this.id));
    this.#checkedAt = startedAt;
    this.#checkedChanges = changes;
    // Spread, so that sessions do not stay in step.
    const share = 0.6 + 0.3 * Math.random();
    if (this.#changes === changes) this.dueAt = startedAt + this.#limits.userMaxAgeMs * share;
  }

  #take(resolution: Resolution): void {
    if (resolution.status !== 'signed-in') return this.end();
    this.#known = resolution;
    this.user = resolution.user;
    for (const { onKnown } of this.holders) onKnown(resolution.user);
  }

  /** Invalidates the known user, who is due again within some time. */
  invalidate(withinMs: number): void {
    this.#changes += 1;
    this.dueAt = Math.min(this.dueAt, performance.now() + withinMs);
  }

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const { onSignedOut } of this.holders) onSignedOut();
  }
}

/**
 * Keeps the users of open sockets current. Sockets of one auth session share its resolution.
 *
 * - Each session is resolved again within 30 s, so that sockets close whose users send nothing.
 * - After a notification of a change one statement finds the sessions that have ended, whose sockets close at once,
 *   even while the provider is unavailable. The others are resolved before their next message, and soon in any case.
 *
 * An outage of the provider or the database closes no socket. Contract 3, WebSocket.
 */
export function createLiveUsers({
  resolve,
  living,
  limits,
  log,
}: AuthSessions & { limits: Limits; log: Pick<Logger, 'warn'> }) {
  const sessions = new Map<string, LiveSession>();
  const changed = new Set<LiveSession>();
  const resolving = new Set<LiveSession>();
  const limit = pLimit(limits.sweepConcurrency);
  let failures: unknown[] = [];
  let isLooking = false;
  const timer = setInterval(sweep, limits.sweepIntervalMs);
  timer.unref();

  function hold(sessionId: string, callbacks: Holder): LiveUser {
    const session = sessions.get(sessionId) ?? new LiveSession(sessionId, resolve, limits);
    sessions.set(sessionId, session);
    const forget = () => {
      if (sessions.get(sessionId) === session) sessions.delete(sessionId);
    };
    const onSignedOut = () => {
      forget();
      callbacks.onSignedOut();
    };
    const holder = { ...callbacks, onSignedOut };
    session.holders.add(holder);
    if (session.user !== undefined) holder.onKnown(session.user);
    return {
      current: () => session.current(),
      release() {
        session.holders.delete(holder);
        if (session.holders.size === 0) forget();
      },
    };
  }

  /** Resolves the sessions that are due. */
  function sweep(): void {
    logFailures();
    const share = Math.ceil(sessions.size * limits.sweepShare);
    limit.concurrency = Math.max(limits.sweepConcurrency, share);
    for (const session of sessions.values()) {
      if (session.dueAt > performance.now() || resolving.has(session)) continue;
      resolving.add(session);
      void limit(resolveDue, session);
    }
  }

  async function resolveDue(session: LiveSession): Promise<void> {
    try {
      // Since it was due it may have been resolved for a message, or released.
      if (session.dueAt <= performance.now() && sessions.has(session.id)) await session.check();
    } catch (error) {
      failures.push(error);
    }
    resolving.delete(session);
    if (resolving.size === 0) logFailures();
  }

  /** Logs one line for all failures: there may be thousands while the provider is down. */
  function logFailures(): void {
    if (failures.length === 0) return;
    log.warn({ err: failures[0], sessions: failures.length }, 'live users could not be resolved');
    failures = [];
  }

  /**
   * Handles a notification of a changed user.
   * @param userId Empty for all users, or where notifications may have been lost.
   */
  function onNotify(userId: string): void {
    for (const session of sessions.values()) {
      if (userId !== '' && session.user !== undefined && session.user.id !== userId) continue;
      // All at once would be more than the provider is asked otherwise.
      session.invalidate(userId === '' ? limits.userRetryMs * Math.random() : 0);
      changed.add(session);
    }
    void endGone();
  }

  /** Ends the changed sessions that no longer exist; those that change meanwhile are checked after them. */
  async function endGone(): Promise<void> {
    if (isLooking) return;
    isLooking = true;
    try {
      while (changed.size > 0) {
        const asked = [...changed];
        changed.clear();
        const found = await living(asked.map(({ id }) => id));
        for (const session of asked) if (!found.has(session.id)) session.end();
      }
    } catch (error) {
      // They are due: the next sweep resolves each.
      log.warn({ err: error }, 'ended sessions could not be looked for');
    }
    isLooking = false;
    sweep();
  }

  return {
    hold,
    onNotify,
    /** Returns the number of auth sessions. */
    get size() {
      return sessions.size;
    },
    stop: () => clearInterval(timer),
  };
}
