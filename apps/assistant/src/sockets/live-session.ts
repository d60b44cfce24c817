import type { KnownUser, User } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import type { Resolution, ResolveSession } from '../identity/current-user.ts';
import type { SocketLimits } from './limits.ts';

/** What a socket wants to hear of its auth session. */
export type Holder = {
  /** The user was resolved; at the first time, and at each time after. */
  onKnown: (user: User) => void;
  onSignedOut: () => void;
};

/** What the user of an auth session is known by. */
export type LiveSessionDeps = {
  resolve: ResolveSession;
  limits: Pick<SocketLimits, 'userMaxAgeMs' | 'userRetryMs'>;
  /** Told when it is over, before its sockets are. */
  onEnd: (session: LiveSession) => void;
};

/** An auth session that sockets of this process are open with, and its user as known here. */
export class LiveSession {
  readonly id: string;
  readonly #deps: LiveSessionDeps;
  readonly #holders = new Set<Holder>();
  #known: KnownUser | undefined;
  /** When the last resolution that succeeded began, and what had been heard until then. */
  #checkedAt = -Infinity;
  #checkedHints = 0;
  /** How often it was heard that something of the user's may have changed. */
  #hints = 0;
  #dueAt = performance.now();
  #check: Promise<void> | undefined;
  #isOver = false;

  constructor(id: string, deps: LiveSessionDeps) {
    this.id = id;
    this.#deps = deps;
  }

  /** As resolved last, however long ago; undefined before the first time. */
  get user(): User | undefined {
    return this.#known?.user;
  }

  /** Whether its turn to be resolved again has come. */
  get isDue(): boolean {
    return this.#dueAt <= performance.now();
  }

  get isHeld(): boolean {
    return this.#holders.size > 0;
  }

  /** Tells a socket of the user, at once where that is known, until the returned function is called. */
  hold(wishes: Holder): () => void {
    // An entry of its own for each socket, whatever was given.
    const holder = { ...wishes };
    this.#holders.add(holder);
    if (this.user !== undefined) holder.onKnown(this.user);
    return () => void this.#holders.delete(holder);
  }

  /**
   * Returns the user, as resolved at most `userMaxAgeMs` ago. One statement checks the session and the generation,
   * because a notification of their change may be late or lost.
   * @throws ProblemError `not_signed_in`; what resolving throws.
   */
  async current(): Promise<User> {
    const hints = this.#hints;
    if (!this.#isFresh()) {
      await this.check();
      // That may have begun before what was heard last.
      if (this.#checkedHints < hints) await this.check();
    }
    if (!this.#isOver && this.#known !== undefined) {
      this.#take(await this.#deps.resolve(this.id, this.#known));
    }
    if (this.#isOver || this.#known === undefined) throw problem('not_signed_in');
    return this.#known.user;
  }

  #isFresh(): boolean {
    const isOld = performance.now() - this.#checkedAt > this.#deps.limits.userMaxAgeMs;
    return this.#known !== undefined && this.#checkedHints === this.#hints && !isOld;
  }

  /**
   * Resolves the user, or waits for the resolution that is on its way.
   * @throws What resolving throws; then it is due again soon.
   */
  check(): Promise<void> {
    this.#check ??= this.#resolveAgain().finally(() => {
      this.#check = undefined;
    });
    return this.#check;
  }

  async #resolveAgain(): Promise<void> {
    const { resolve, limits } = this.#deps;
    const hints = this.#hints;
    const began = performance.now();
    this.#dueAt = began + limits.userRetryMs;
    this.#take(await resolve(this.id));
    this.#checkedAt = began;
    this.#checkedHints = hints;
    // Where something was heard meanwhile its turn has been set by that.
    if (this.#hints === hints) this.#dueAt = began + limits.userMaxAgeMs * shareOfAge();
  }

  #take(resolution: Resolution): void {
    if (resolution.status !== 'signed-in') return this.end();
    this.#known = resolution;
    for (const { onKnown } of this.#holders) onKnown(resolution.user);
  }

  /**
   * Notes that something of the user's may have changed: what is known of them counts no more.
   * @param withinMs When it is due at the latest.
   */
  hint(withinMs: number): void {
    this.#hints += 1;
    this.#dueAt = Math.min(this.#dueAt, performance.now() + withinMs);
  }

  /** Ends it, and tells its sockets; once. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#deps.onEnd(this);
    for (const { onSignedOut } of this.#holders) onSignedOut();
  }
}

/** From six to nine tenths of the time that there is, so that sessions do not stay in step. */
const shareOfAge = () => 0.6 + 0.3 * Math.random();
