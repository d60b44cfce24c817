import type { Logger } from '@oselya/kit';
import pLimit from 'p-limit';
import type { ResolvedUser, User } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import type { Resolution, ResolveSession } from '../identity/current-user.ts';

/** Timing and concurrency of user resolution. */
export const liveUserLimits = {
  /** Maximum age of a resolution when its user sends a message. */
  userMaxAgeMs: 30_000,
  /** Delay before another attempt to resolve a user. */
  userRetryMs: 5_000,
  sweepIntervalMs: 1_000,
  /** Minimum number of concurrent resolutions. */
  sweepConcurrency: 8,
  /** Concurrent resolutions as a share of all users. If one resolution takes 5 s, all users take 20 s. */
  sweepShare: 1 / 4,
};
type Limits = typeof liveUserLimits;

/** Access to auth sessions, which the identity module provides. */
export type AuthSessionProvider = {
  resolve: ResolveSession;
  /** Returns the ids of the given auth sessions that are still active. */
  findActive: (sessionIds: readonly string[]) => Promise<ReadonlySet<string>>;
};

/** The user of an auth session, resolved repeatedly until released. */
export type LiveUser = {
  /**
   * Returns the user from a resolution that is at most 30 s old and newer than the last known change.
   * @throws ProblemError `not_signed_in` or `provider_unavailable`; DatabaseError.
   */
  current(): Promise<User>;
  release(): void;
};

/** Callbacks for the user of an auth session. `onKnown` is called after each resolution. */
type Holder = { onKnown: (user: User) => void; onSignedOut: () => void };

/** An auth session that has open sockets in this process. */
class LiveSession {
  readonly id: string;
  readonly holders = new Set<Holder>();
  user: User | undefined;
  dueAt = performance.now();
  readonly #resolve: ResolveSession;
  readonly #limits: Limits;
  #known: ResolvedUser | undefined;
  /** Start of the last successful resolution, and the number of changes known at that time. */
  #resolvedAt = -Infinity;
  #resolvedChanges = 0;
  #changes = 0;
  #resolution: Promise<void> | undefined;
  #isOver = false;

  constructor(id: string, resolve: ResolveSession, limits: Limits) {
    this.id = id;
    this.#resolve = resolve;
    this.#limits = limits;
  }

  /** See {@link LiveUser}. Queries the auth session each time, since the notification of a revocation can be lost. */
  async current(): Promise<User> {
    const changes = this.#changes;
    const isOld = performance.now() - this.#resolvedAt > this.#limits.userMaxAgeMs;
    if (this.#known === undefined || isOld || this.#resolvedChanges !== changes) {
      await this.refresh();
      // The resolution may have started before the last change.
      if (this.#resolvedChanges < changes) await this.refresh();
    }
    if (!this.#isOver && this.#known !== undefined) {
      this.#apply(await this.#resolve(this.id, this.#known));
    }
    if (this.#isOver || this.#known === undefined) throw problem('not_signed_in');
    return this.#known.user;
  }

  /** Resolves the user, or joins the resolution in progress. */
  refresh(): Promise<void> {
    this.#resolution ??= this.#resolveAgain().finally(() => {
      this.#resolution = undefined;
    });
    return this.#resolution;
  }

  async #resolveAgain(): Promise<void> {
    const changes = this.#changes;
    const startedAt = performance.now();
    this.dueAt = startedAt + this.#limits.userRetryMs;
    this.#apply(await this.#resolve(this.id));
    this.#resolvedAt = startedAt;
    this.#resolvedChanges = changes;
    // Jitter keeps sessions from becoming due at the same time.
    const share = 0.6 + 0.3 * Math.random();
    if (this.#changes === changes) this.dueAt = startedAt + this.#limits.userMaxAgeMs * share;
  }

  #apply(resolution: Resolution): void {
    if (resolution.status !== 'signed-in') return this.end();
    this.#known = resolution;
    this.user = resolution.user;
    for (const { onKnown } of this.holders) onKnown(resolution.user);
  }

  /** Marks the known user as outdated and due within a time. */
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
 * Creates the registry that resolves the users of open sockets every 30 s, once for each auth session. After a
 * notification, the sockets of ended auth sessions close immediately, even while the provider is unavailable. An outage of
 * the provider or the database closes no socket. Contract 3, WebSocket.
 */
export function createLiveUsers({
  resolve,
  findActive,
  limits,
  log,
}: AuthSessionProvider & { limits: Limits; log: Pick<Logger, 'warn'> }) {
  const sessions = new Map<string, LiveSession>();
  const changed = new Set<LiveSession>();
  const resolving = new Set<LiveSession>();
  const limit = pLimit(limits.sweepConcurrency);
  let failures: unknown[] = [];
  let isEnding = false;
  const timer = setInterval(sweep, limits.sweepIntervalMs).unref();

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
      // While it waited, the session may have been resolved for a message or released.
      if (session.dueAt <= performance.now() && sessions.has(session.id)) await session.refresh();
    } catch (error) {
      failures.push(error);
    }
    resolving.delete(session);
    if (resolving.size === 0) logFailures();
  }

  /** Logs all failures in one line, since an outage of the provider can cause thousands. */
  function logFailures(): void {
    if (failures.length === 0) return;
    log.warn({ err: failures[0], sessions: failures.length }, 'live users could not be resolved');
    failures = [];
  }

  /** @param userId Id of the changed user. Empty for all users, after notifications may have been lost. */
  function onNotify(userId: string): void {
    for (const session of sessions.values()) {
      if (userId !== '' && session.user !== undefined && session.user.id !== userId) continue;
      // Spread the resolutions of all users, so that the provider gets no burst of requests.
      session.invalidate(userId === '' ? limits.userRetryMs * Math.random() : 0);
      changed.add(session);
    }
    void endInactive();
  }

  /** Ends the changed sessions that are no longer active. Repeats for sessions that change in the meantime. */
  async function endInactive(): Promise<void> {
    if (isEnding) return;
    isEnding = true;
    try {
      while (changed.size > 0) {
        const batch = [...changed];
        changed.clear();
        const active = await findActive(batch.map(({ id }) => id));
        for (const session of batch) if (!active.has(session.id)) session.end();
      }
    } catch (error) {
      // The sessions are due, so the next sweep resolves them.
      log.warn({ err: error }, 'ended sessions could not be looked for');
    }
    isEnding = false;
    sweep();
  }

  return {
    hold,
    onNotify,
    get size() {
      return sessions.size;
    },
    stop: () => clearInterval(timer),
  };
}
