import { setTimeout as sleep } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import type { AuthSession, SealedTokens } from './auth-sessions.sql.ts';
import type { EndRefused } from './end-refused.ts';
import { findSession, type SessionRules } from './find-session.sql.ts';
import type { IdentityMetrics, RefreshOutcome } from './metrics.ts';
import {
  isProviderOutage,
  isRefusal,
  outageAsProblem,
  ProviderError,
  providerUnavailable,
} from './provider/provider-error.ts';
import type { Provider, Tokens } from './provider/provider.ts';
import {
  hasSignedInSince,
  releaseRefreshLease,
  storeRefreshedTokens,
  takeRefreshLease,
} from './refresh-repository.ts';
import type { RevocationQueue } from './revocation-queue.ts';
import type { SessionTokens } from './session-tokens.ts';
import { singleFlight } from './single-flight.ts';

/** The refresh, and once in a while the provider's keys, where it signed the ID token with a new one. */
const MOST_CALLS = 2;
/** What a lease lasts beyond the calls under it: enough to write the answer, all tries included. */
const LEASE_MARGIN_MS = 10_000;
/** The waits between the tries to write the answer, which go on for as long as the lease lasts. */
const STORE_AGAIN_MS = { first: 100, most: 1000 };
const POLL_MS = { first: 25, most: 250 };

type TokenRefreshOptions = {
  db: Kysely<Tables>;
  provider: Provider;
  tokens: SessionTokens;
  endRefused: EndRefused;
  revocations: Pick<RevocationQueue, 'add' | 'wake'>;
  metrics: Pick<IdentityMetrics, 'countRefresh'>;
  providerTimeoutMs: number;
  rules: SessionRules;
};

/** How a refresh ended, and the session with newer tokens, or nothing when it is over. */
type Refreshed = { outcome: RefreshOutcome; session: AuthSession | undefined };

/**
 * Refreshes the tokens of a session once, however many requests on however many instances find them
 * expired. The winner holds a lease in the row while it calls the provider; nobody holds a database
 * connection meanwhile. Discovery and the provider's keys come before the lease, which is measured for
 * what is left: if it ran out under more, another process would redeem the same token. Nor is a token
 * spent for an answer that nothing is there to verify with. Contract 3, Refresh.
 *
 * ```text
 *   discovery, keys ──fail──▶ 503
 *       ▼
 *   take lease ──no──▶ wait for the row ──▶ new version: use it
 *       │                      ├──▶ gone: signed out
 *      yes                     ├──▶ lease given back, or IDP_TIMEOUT_MS is over: 503
 *       ▼                      └──▶ lease ran out: its holder died, take it
 *   call provider ──▶ tokens: update the row where the version is still the same,
 *                 │           or have them revoked where the session is gone
 *                 ├─▶ refused: delete the row where the version is still the same
 *                 └─▶ no answer: give the lease back, 503
 * ```
 *
 * @returns A function that gives the session with newer tokens, or nothing when it is over. It throws
 * `provider_unavailable`, and UnreadableTokenError.
 */
export function createTokenRefresh({
  db,
  provider,
  tokens,
  endRefused,
  revocations,
  metrics,
  rules,
  ...limits
}: TokenRefreshOptions) {
  const leaseMs = MOST_CALLS * limits.providerTimeoutMs + LEASE_MARGIN_MS;
  const share = singleFlight<AuthSession | undefined>();
  const find = (id: string) => findSession(db, id, rules);

  async function refresh(session: AuthSession): Promise<Refreshed> {
    await prepare();
    const deadline = performance.now() + limits.providerTimeoutMs;
    for (;;) {
      const leaseEnd = Date.now() + leaseMs;
      const lease = await takeRefreshLease(db, session, leaseMs);
      if (lease !== undefined) return redeem(session, lease, leaseEnd);
      const winner = await waitForWinner(session, deadline);
      if (winner !== 'abandoned') return { outcome: 'waited', session: winner };
    }
  }

  async function prepare(): Promise<void> {
    try {
      await provider.prepare();
    } catch (error) {
      throw outageAsProblem(error);
    }
  }

  /** @throws `provider_unavailable` at the deadline, when the holder of the lease is slow or has crashed. */
  async function waitForWinner(
    session: AuthSession,
    deadline: number,
  ): Promise<AuthSession | undefined | 'abandoned'> {
    for (let delayMs = POLL_MS.first; ; delayMs = Math.min(delayMs * 2, POLL_MS.most)) {
      const current = await find(session.id);
      if (current === undefined || current.tokenVersion !== session.tokenVersion) return current;
      if (current.refreshLease === 'abandoned') return 'abandoned';
      const leftMs = deadline - performance.now();
      if (current.refreshLease === 'none' || leftMs <= 0) throw providerUnavailable();
      await sleep(Math.min(delayMs, leftMs));
    }
  }

  async function redeem(session: AuthSession, lease: string, leaseEnd: number): Promise<Refreshed> {
    let renewed: Tokens & { refreshToken: string };
    try {
      const refreshToken = await tokens.openRefreshToken(session);
      // Without one a refresh can only fail, and needs no call to find out.
      if (refreshToken === '') throw new ProviderError('refused', 'there is no refresh token');
      const answer = await provider.refresh(refreshToken);
      renewed = { ...answer, refreshToken: answer.refreshToken ?? refreshToken };
    } catch (error) {
      if (isRefusal(error)) {
        const isOver = await endRefused(session);
        if (isOver) return { outcome: 'refused', session: undefined };
        return { outcome: 'waited', session: await find(session.id) };
      }
      await releaseRefreshLease(db, session, lease);
      throw outageAsProblem(error);
    }
    const sealed = await tokens.seal(renewed, session);
    const isStored = await store(session, sealed, leaseEnd);
    // Whatever the row holds now is what counts: it can be gone, or renewed by a faster process.
    const current = await find(session.id);
    if (!isStored && current === undefined) await giveUp(session, sealed);
    return { outcome: 'refreshed', session: current };
  }

  /**
   * Whoever signed out could not have these tokens revoked, for the database never had them. Where the
   * user signed in anew meanwhile they are left alone: they may share a grant with the new ones.
   */
  async function giveUp({ id, userId, readAt }: AuthSession, sealed: SealedTokens): Promise<void> {
    if (await hasSignedInSince(db, userId, readAt)) return;
    await revocations.add(db, [{ id, userId, ...sealed }]);
    revocations.wake();
  }

  /**
   * The provider has spent the earlier refresh token, so nobody could ever refresh again without this
   * write. One that failed may also have been done; repeating it then changes nothing.
   */
  async function store(session: AuthSession, sealed: SealedTokens, leaseEnd: number) {
    for (
      let delayMs = STORE_AGAIN_MS.first;
      ;
      delayMs = Math.min(delayMs * 2, STORE_AGAIN_MS.most)
    ) {
      try {
        return await storeRefreshedTokens(db, session, sealed);
      } catch (error) {
        if (Date.now() + delayMs >= leaseEnd) throw error;
        await sleep(delayMs);
      }
    }
  }

  async function counted(session: AuthSession): Promise<AuthSession | undefined> {
    try {
      const { outcome, session: current } = await refresh(session);
      metrics.countRefresh(outcome);
      return current;
    } catch (error) {
      if (isProviderOutage(error)) metrics.countRefresh('unavailable');
      throw error;
    }
  }

  return (session: AuthSession) =>
    share(`${session.id} ${session.tokenVersion}`, () => counted(session));
}
