import type { Logger } from '@oselya/kit';
import pLimit from 'p-limit';
import type { ResolvedUser, User } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import type { Resolution, ResolveSession } from '../identity/current-user.ts';

export const liveUserLimits = {
  /** Maximum age of a user's last resolution when a message is handled. */
  userMaxAgeMs: 30_000,
  /** Delay before the next attempt after a failure to resolve a user, and maximum delay after lost notifications. */
  userRetryMs: 5_000,
  sweepIntervalMs: 1_000,
  /** Lower bound of the limit on concurrent resolutions. */
  sweepConcurrency: 8,
  /** Limit on concurrent resolutions, as a share of users. If one resolution takes 5 s, all users take 20 s. */
  sweepShare: 1 / 4,
};
type LiveUserLimits = typeof liveUserLimits;

/** Access to auth sessions, which the identity module provides. */
export type AuthSessionProvider = {
  resolve: ResolveSession;
  /** Returns the IDs of the given auth sessions that are still active. */
  findActive: (sessionIds: readonly string[]) => Promise<ReadonlySet<string>>;
};

/** User of an auth session, who is resolved repeatedly until `release` is called. */
export type LiveUser = {
  /**
   * Returns the user from a resolution that is at most 30 s old and newer than the last notified change.
   * @throws ProblemError `not_signed_in`, `provider_unavailable` or `user_without_email`; DatabaseError.
   */
  current(): Promise<User>;
  release(): void;
};

/** Callbacks for an auth session's user. `onResolved` is called after each resolution, and at once for a known user. */
type UserWatcher = { onResolved: (user: User) => void; onSignedOut: () => void };

/** Auth session that open sockets or running turns of this process watch. */
class LiveSession {
  readonly id: string;
  readonly watchers = new Set<UserWatcher>();
  user: User | undefined;
  dueAt = performance.now();
  readonly #resolve: ResolveSession;
  readonly #limits: LiveUserLimits;
  #resolvedUser: ResolvedUser | undefined;
  /** Start time of the last successful resolution, and the number of changes at that time. */
  #resolvedAt = -Infinity;
  #resolvedChangeCount = 0;
  #changeCount = 0;
  #resolution: Promise<void> | undefined;
  #hasEnded = false;

  constructor(id: string, resolve: ResolveSession, limits: LiveUserLimits) {
    this.id = id;
    this.#resolve = resolve;
    this.#limits = limits;
  }

  /** See {@link LiveUser}. Reads the auth session each time, because a revocation's notification can be lost. */
  async current(): Promise<User> {
    const changeCount = this.#changeCount;
    const isOutdated = performance.now() - this.#resolvedAt > this.#limits.userMaxAgeMs;
    if (
      this.#resolvedUser === undefined ||
      isOutdated ||
      this.#resolvedChangeCount !== changeCount
    ) {
      await this.refresh();
      // The call above may have joined a resolution that started before the last change.
      if (this.#resolvedChangeCount < changeCount) await this.refresh();
    }
    if (!this.#hasEnded && this.#resolvedUser !== undefined) {
      this.#applyResolution(await this.#resolve(this.id, this.#resolvedUser));
    }
    if (this.#hasEnded || this.#resolvedUser === undefined) throw problem('not_signed_in');
    return this.#resolvedUser.user;
  }

  /** Resolves the user, or joins the resolution in progress. */
  refresh(): Promise<void> {
    this.#resolution ??= this.#resolveUser().finally(() => {
      this.#resolution = undefined;
    });
    return this.#resolution;
  }

  async #resolveUser(): Promise<void> {
    const changeCount = this.#changeCount;
    const startedAt = performance.now();
    this.dueAt = startedAt + this.#limits.userRetryMs;
    this.#applyResolution(await this.#resolve(this.id));
    this.#resolvedAt = startedAt;
    this.#resolvedChangeCount = changeCount;
    // Jitter prevents many sessions from being due at the same time.
    const jitterShare = 0.6 + 0.3 * Math.random();
    if (this.#changeCount === changeCount)
      this.dueAt = startedAt + this.#limits.userMaxAgeMs * jitterShare;
  }

  #applyResolution(resolution: Resolution): void {
    if (resolution.status !== 'signed-in') return this.end();
    this.#resolvedUser = resolution;
    this.user = resolution.user;
    for (const { onResolved } of this.watchers) onResolved(resolution.user);
  }

  /** Marks the resolved user as outdated and schedules the next resolution within `withinMs`. */
  invalidate(withinMs: number): void {
    this.#changeCount += 1;
    this.dueAt = Math.min(this.dueAt, performance.now() + withinMs);
  }

  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    for (const { onSignedOut } of this.watchers) onSignedOut();
  }
}

/**
 * Creates the registry that resolves the users of open sockets and running turns at least every 30 s, once for each
 * auth session. After a notification, the sockets of ended auth sessions close immediately, even while the provider is
 * unavailable. A provider or database outage closes no socket. Contract 3, WebSocket.
 */
export function createLiveUsers({
  resolve,
  findActive,
  limits,
  log,
}: AuthSessionProvider & { limits: LiveUserLimits; log: Pick<Logger, 'warn'> }) {
  const sessions = new Map<string, LiveSession>();
  const changedSessions = new Set<LiveSession>();
  const resolvingSessions = new Set<LiveSession>();
  const limiter = pLimit(limits.sweepConcurrency);
  let failures: unknown[] = [];
  let isEnding = false;
  const timer = setInterval(sweep, limits.sweepIntervalMs).unref();

  function watchUser(sessionId: string, userCallbacks: UserWatcher): LiveUser {
    const session = sessions.get(sessionId) ?? new LiveSession(sessionId, resolve, limits);
    sessions.set(sessionId, session);
    const removeSession = () => {
      if (sessions.get(sessionId) === session) sessions.delete(sessionId);
    };
    const onSignedOut = () => {
      removeSession();
      userCallbacks.onSignedOut();
    };
    const watcher = { ...userCallbacks, onSignedOut };
    session.watchers.add(watcher);
    if (session.user !== undefined) watcher.onResolved(session.user);
    return {
      current: () => session.current(),
      release() {
        session.watchers.delete(watcher);
        if (session.watchers.size === 0) removeSession();
      },
    };
  }

  /** Starts resolving the due sessions. */
  function sweep(): void {
    logFailures();
    const scaledConcurrency = Math.ceil(sessions.size * limits.sweepShare);
    limiter.concurrency = Math.max(limits.sweepConcurrency, scaledConcurrency);
    for (const session of sessions.values()) {
      if (session.dueAt > performance.now() || resolvingSessions.has(session)) continue;
      resolvingSessions.add(session);
      void limiter(resolveDue, session);
    }
  }

  async function resolveDue(session: LiveSession): Promise<void> {
    try {
      // During the wait, a message may have resolved the session, or its last watcher may have released it.
      if (session.dueAt <= performance.now() && sessions.has(session.id)) await session.refresh();
    } catch (error) {
      failures.push(error);
    }
    resolvingSessions.delete(session);
    if (resolvingSessions.size === 0) logFailures();
  }

  /** Logs all failures in one line, because a provider outage can cause thousands. */
  function logFailures(): void {
    if (failures.length === 0) return;
    log.warn({ err: failures[0], sessions: failures.length }, 'live users could not be resolved');
    failures = [];
  }

  /**
   * Invalidates the auth sessions of a changed user; of all users if the ID is empty, which means that notifications
   * may have been lost.
   */
  function onNotify(userId: string): void {
    for (const session of sessions.values()) {
      if (userId !== '' && session.user !== undefined && session.user.id !== userId) continue;
      // A random delay spreads the requests to the provider over time.
      session.invalidate(userId === '' ? limits.userRetryMs * Math.random() : 0);
      changedSessions.add(session);
    }
    void endInactive();
  }

  /** Ends the changed sessions that are no longer active. Continues with sessions that change during the query. */
  async function endInactive(): Promise<void> {
    if (isEnding) return;
    isEnding = true;
    try {
      while (changedSessions.size > 0) {
        const batch = [...changedSessions];
        changedSessions.clear();
        const activeIds = await findActive(batch.map(({ id }) => id));
        for (const session of batch) if (!activeIds.has(session.id)) session.end();
      }
    } catch (error) {
      // The next sweeps resolve the changed sessions, which are due within seconds.
      log.warn({ err: error }, 'ended sessions could not be looked for');
    }
    isEnding = false;
    sweep();
  }

  return {
    watchUser,
    onNotify,
    get size() {
      return sessions.size;
    },
    stop: () => clearInterval(timer),
  };
}
