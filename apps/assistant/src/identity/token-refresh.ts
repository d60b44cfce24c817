import { setTimeout as sleep } from 'node:timers/promises';
import { isLeaseFree, leaseExpiry } from '@oselya/db';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import type { IdentityDeps } from './deps.ts';
import type { RefreshOutcome } from './metrics.ts';
import type { Tokens } from './provider/provider.ts';
import {
  isProviderOutage,
  isRejection,
  outageAsProblem,
  ProviderError,
  providerUnavailable,
} from './provider/transport.ts';
import { type AuthSession, findSession, type SealedTokens, tokenColumns } from './auth-sessions.ts';

/** The token request, and one for rotated keys of the provider. */
const MAX_CALLS = 2;
/** Time to store the tokens. */
const LEASE_MARGIN_MS = 10_000;
const POLL_MS = { first: 25, max: 250 };
const STORE_RETRY_MS = 500;

/** Ends a session whose tokens the provider rejects, unless they were refreshed; returns whether it ended. */
export type EndRejected = (
  session: Pick<AuthSession, 'id' | 'userId' | 'tokenVersion'>,
) => Promise<boolean>;

/**
 * Creates the function that refreshes the tokens of a session once for all concurrent requests. The winner holds a lease
 * in the row, but no database connection, while it calls the provider. Contract 3, Refresh.
 *
 * ```text
 *   acquire lease ──no──▶ poll the row ──▶ new version: use it
 *       │                      ├──▶ gone: signed out
 *      yes                     ├──▶ released, or IDP_TIMEOUT_MS is over: 503
 *       ▼                      └──▶ expired: its holder crashed, acquire it
 *   call provider ──▶ tokens: update the row if its version is still the same
 *                 ├─▶ rejected: delete the row if its version is still the same
 *                 └─▶ no answer: release, 503
 * ```
 *
 * @returns A function that returns the session with newer tokens, or undefined when it has ended. It throws
 *   `provider_unavailable`, and UnreadableTokenError.
 */
export function createTokenRefresh(deps: IdentityDeps, endRejected: EndRejected) {
  const { db, provider, vault, metrics, rules } = deps;
  const providerTimeoutMs = deps.config.IDP_TIMEOUT_MS;
  const leaseMs = MAX_CALLS * providerTimeoutMs + LEASE_MARGIN_MS;
  const share = singleFlight<AuthSession | undefined>();

  async function refresh(session: AuthSession): Promise<AuthSession | undefined> {
    const deadline = performance.now() + providerTimeoutMs;
    // The lease does not cover discovery and keys.
    await provider.prepare();
    for (;;) {
      const leaseEnd = performance.now() + leaseMs;
      const { numUpdatedRows } = await updateVersion(db, session)
        .set({ refresh_lease_until: leaseExpiry(leaseMs) })
        .where(isLeaseFree('refresh_lease_until'))
        .executeTakeFirst();
      if (numUpdatedRows > 0n) return redeem(session, leaseEnd);
      const winner = await waitForWinner(session, deadline);
      if (winner !== 'expired') return finish('waited', winner);
    }
  }

  async function waitForWinner(
    session: AuthSession,
    deadline: number,
  ): Promise<AuthSession | undefined | 'expired'> {
    for (let delayMs = POLL_MS.first; ; delayMs = Math.min(delayMs * 2, POLL_MS.max)) {
      const current = await findSession(db, session.id, rules);
      if (current === undefined || current.tokenVersion !== session.tokenVersion) return current;
      if (current.refreshLease === 'expired') return 'expired';
      const leftMs = deadline - performance.now();
      if (current.refreshLease === 'free' || leftMs <= 0) throw providerUnavailable();
      await sleep(Math.min(delayMs, leftMs));
    }
  }

  async function redeem(session: AuthSession, leaseEnd: number): Promise<AuthSession | undefined> {
    let tokens: Tokens;
    try {
      const refreshToken = await vault.open(session.refreshTokenEnc, session, 'refresh_token_enc');
      if (refreshToken === '') throw new ProviderError('rejected', 'there is no refresh token');
      tokens = { refreshToken, ...(await provider.refresh(refreshToken)) };
    } catch (error) {
      if (!isRejection(error)) {
        await updateVersion(db, session).set({ refresh_lease_until: null }).execute();
        throw error;
      }
      if (await endRejected(session)) return finish('refused', undefined);
      return finish('waited', await findSession(db, session.id, rules));
    }
    await store(session, await vault.sealTokens(tokens, session), leaseEnd);
    // The session may have ended meanwhile.
    return finish('refreshed', await findSession(db, session.id, rules));
  }

  /** Retries until the lease expires, because the provider has already spent the earlier refresh token. */
  async function store(session: AuthSession, tokens: SealedTokens, leaseEnd: number) {
    for (;;) {
      try {
        await updateVersion(db, session)
          .set({
            ...tokenColumns(tokens),
            token_version: session.tokenVersion + 1,
            refresh_lease_until: null,
          })
          .execute();
        return;
      } catch (error) {
        if (performance.now() + STORE_RETRY_MS >= leaseEnd) throw error;
        await sleep(STORE_RETRY_MS);
      }
    }
  }

  function finish(outcome: RefreshOutcome, session: AuthSession | undefined) {
    metrics.countRefresh(outcome);
    return session;
  }

  return (session: AuthSession) =>
    share(`${session.id} ${session.tokenVersion}`, () =>
      refresh(session).catch((error: unknown) => {
        const failure = outageAsProblem(error);
        if (isProviderOutage(failure)) metrics.countRefresh('unavailable');
        throw failure;
      }),
    );
}

/** Updates a session if its tokens are still those of this version, so that an ended session stays ended. */
function updateVersion(db: Kysely<Tables>, { id, tokenVersion }: AuthSession) {
  return db
    .updateTable('user_auth_sessions')
    .where('id', '=', id)
    .where('token_version', '=', tokenVersion);
}

/** Creates a function that shares one result, or error, among callers that wait for the same key. */
export function singleFlight<Result>(): (
  key: string,
  work: () => Promise<Result>,
) => Promise<Result> {
  const flights = new Map<string, Promise<Result>>();
  return (key, work) => {
    const current = flights.get(key);
    if (current !== undefined) return current;
    const flight = work().finally(() => flights.delete(key));
    flights.set(key, flight);
    return flight;
  };
}
