import { setTimeout as sleep } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import {
  type AuthSession,
  deleteRefused,
  findSession,
  releaseRefreshLease,
  storeRefreshedTokens,
  takeRefreshLease,
} from './auth-sessions.ts';
import {
  isRefusal,
  outageAsProblem,
  ProviderError,
  providerUnavailable,
} from './provider/provider-error.ts';
import type { Provider, Tokens } from './provider/provider.ts';
import type { SessionTokens } from './session-tokens.ts';
import { singleFlight } from './single-flight.ts';

/** What a lease lasts beyond the longest call: enough to write the answer on a busy database. */
const LEASE_MARGIN_MS = 10_000;
const POLL_MS = { first: 25, most: 250 };

export type TokenRefreshOptions = {
  db: Kysely<Tables>;
  provider: Provider;
  tokens: SessionTokens;
  providerTimeoutMs: number;
  lifetimeDays: number;
};

/**
 * Refreshes the tokens of a session once, however many requests on however many instances find them
 * expired. The winner holds a lease in the row while it calls the provider; nobody holds a database
 * connection meanwhile. Contract 3, Refresh.
 *
 * ```text
 *   take lease ──no──▶ wait for the row ──▶ new version: use it
 *       │                      ├──▶ gone: signed out
 *      yes                     ├──▶ lease given back: the provider did not answer, 503
 *       ▼                      └──▶ lease ran out: its holder died, take it
 *   call provider ──▶ tokens: update the row where the version is still the same
 *                 ├─▶ refused: delete the row where the version is still the same
 *                 └─▶ no answer: give the lease back, 503
 * ```
 *
 * @returns A function that gives the session with newer tokens, or nothing when it is over. It throws
 * `provider_unavailable`, and UnreadableTokenError.
 */
export function createTokenRefresh({ db, provider, tokens, ...limits }: TokenRefreshOptions) {
  const leaseMs = limits.providerTimeoutMs + LEASE_MARGIN_MS;
  const share = singleFlight<AuthSession | undefined>();
  const find = (id: string) => findSession(db, id, limits.lifetimeDays);

  async function refresh(session: AuthSession): Promise<AuthSession | undefined> {
    const deadline = Date.now() + 2 * leaseMs;
    while (Date.now() < deadline) {
      if (await takeRefreshLease(db, session, leaseMs)) return redeem(session);
      const winner = await waitForWinner(session, deadline);
      if (winner !== 'abandoned') return winner;
    }
    throw providerUnavailable();
  }

  async function waitForWinner(
    session: AuthSession,
    deadline: number,
  ): Promise<AuthSession | undefined | 'abandoned'> {
    for (
      let delayMs = POLL_MS.first;
      Date.now() < deadline;
      delayMs = Math.min(delayMs * 2, POLL_MS.most)
    ) {
      const current = await find(session.id);
      if (current === undefined || current.tokenVersion !== session.tokenVersion) return current;
      if (current.refreshLease === 'none') throw providerUnavailable();
      if (current.refreshLease === 'abandoned') return 'abandoned';
      await sleep(delayMs);
    }
    throw providerUnavailable();
  }

  async function redeem(session: AuthSession): Promise<AuthSession | undefined> {
    let renewed: Tokens & { refreshToken: string };
    try {
      const refreshToken = await tokens.openRefreshToken(session);
      // Without one a refresh can only fail, and needs no call to find out.
      if (refreshToken === '') throw new ProviderError('refused', 'there is no refresh token');
      const answer = await provider.refresh(refreshToken);
      renewed = { ...answer, refreshToken: answer.refreshToken ?? refreshToken };
    } catch (error) {
      if (isRefusal(error)) {
        const isOver = await deleteRefused(db, session);
        return isOver ? undefined : find(session.id);
      }
      await releaseRefreshLease(db, session);
      throw outageAsProblem(error);
    }
    await storeRefreshedTokens(db, session, await tokens.seal(renewed, session));
    // Whatever the row holds now is what counts: it can be gone, or renewed by a faster process.
    return find(session.id);
  }

  return (session: AuthSession) =>
    share(`${session.id} ${session.tokenVersion}`, () => refresh(session));
}
