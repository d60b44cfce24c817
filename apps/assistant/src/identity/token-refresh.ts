import { setTimeout as sleep } from 'node:timers/promises';
import { isLeaseFree, leaseExpiry } from '@oselya/db';
import { ProblemError } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { type AuthSession, findAuthSession } from './auth-sessions.ts';
import type { IdentityDeps } from './deps.ts';
import type { RefreshOutcome } from './metrics.ts';
import {
  createProviderUnavailableError,
  isRejection,
  ProviderError,
  toRequestError,
} from './provider/transport.ts';
import { whereLeaseIs } from './revocation.ts';

/** Maximum number of provider requests under one lease: the token request, and a fetch of rotated keys. */
const MAX_PROVIDER_REQUESTS = 2;
const LEASE_MARGIN_MS = 10_000;
const POLL_INTERVAL_MS = { first: 25, max: 250 };
const STORE_RETRY_MS = 500;
/** Database outage that every refresh survives. The lease covers it, because only the holder knows the new tokens. */
const STORE_TIMEOUT_MS = 60_000;

/** Acquired refresh lease. `expiry` is its fencing token in the row. Retries to store tokens end at `storeDeadline`. */
type RefreshLease = { expiry: string; storeDeadline: number };

/**
 * Ends an auth session with rejected tokens if its tokens and its lease are unchanged. Returns whether it ended.
 * @param lease Expiry of the lease, as text. If undefined, the lease is not checked.
 */
export type EndRejectedSession = (
  session: Pick<AuthSession, 'id' | 'user_id' | 'token_version'>,
  lease?: string,
) => Promise<boolean>;

/**
 * Creates the function that refreshes the tokens of an auth session once for all concurrent requests. The winner holds
 * a lease in the row, but no database connection, during its request to the provider. Contract 3, Refresh.
 *
 * ```text
 *   acquire lease ──no──▶ poll the row ──▶ new version: use it
 *       │                      ├──▶ gone: signed out
 *      yes                     ├──▶ released, or IDP_TIMEOUT_MS is over: 503
 *       ▼                      └──▶ expired: its holder crashed, acquire it
 *   call provider ──▶ tokens: update the row if its version is still the same
 *                 ├─▶ rejected: delete the row if its version and lease are still the same, else poll the row
 *                 └─▶ no answer: release, 503
 * ```
 *
 * @returns A function that returns the auth session with newer tokens, or undefined if the auth session has ended. It
 *   throws `provider_unavailable`, `sign_in_not_configured` or UnreadableTokenError.
 */
export function createTokenRefresh(deps: IdentityDeps, endRejectedSession: EndRejectedSession) {
  const { db, config, provider, vault, metrics } = deps;
  const holdMs = MAX_PROVIDER_REQUESTS * config.IDP_TIMEOUT_MS + STORE_TIMEOUT_MS;
  const shareRefresh = createSingleFlight<AuthSession | undefined>();

  async function refresh(session: AuthSession): Promise<AuthSession | undefined> {
    const deadline = performance.now() + config.IDP_TIMEOUT_MS;
    // Discovery and keys are fetched before the lease begins, so the lease need not cover them.
    await provider.prepare();
    for (;;) {
      const lease = await acquireLease(session);
      const outcome = lease === undefined ? undefined : await redeem(session, lease);
      if (outcome !== undefined) {
        metrics.countRefresh(outcome);
        // The auth session may have ended during the refresh, so read it again.
        return outcome === 'refused' ? undefined : findAuthSession(db, session.id, config);
      }
      const winner = await waitForWinner(session, deadline);
      if (winner === 'expired') continue;
      metrics.countRefresh('waited');
      return winner;
    }
  }

  async function acquireLease(session: AuthSession): Promise<RefreshLease | undefined> {
    const storeDeadline = performance.now() + holdMs;
    const row = await updateIfVersionUnchanged(db, session)
      .set({ refresh_lease_until: leaseExpiry(holdMs + LEASE_MARGIN_MS) })
      .where(isLeaseFree('refresh_lease_until'))
      .returning(sql<string>`refresh_lease_until::text`.as('expiry'))
      .executeTakeFirst();
    return row && { ...row, storeDeadline };
  }

  async function waitForWinner(
    session: AuthSession,
    deadline: number,
  ): Promise<AuthSession | undefined | 'expired'> {
    for (
      let delayMs = POLL_INTERVAL_MS.first;
      ;
      delayMs = Math.min(delayMs * 2, POLL_INTERVAL_MS.max)
    ) {
      const currentSession = await findAuthSession(db, session.id, config);
      if (currentSession?.token_version !== session.token_version) return currentSession;
      if (currentSession.refreshLease === 'expired') return 'expired';
      const remainingMs = deadline - performance.now();
      if (currentSession.refreshLease === 'free' || remainingMs <= 0)
        throw createProviderUnavailableError();
      await sleep(Math.min(delayMs, remainingMs));
    }
  }

  /** Redeems the refresh token. Returns undefined if the provider rejects it, but the row has changed or is gone. */
  async function redeem(
    session: AuthSession,
    lease: RefreshLease,
  ): Promise<RefreshOutcome | undefined> {
    try {
      const refreshToken = await vault.open(session, 'refresh_token_enc');
      if (refreshToken === '') throw new ProviderError('rejected', 'there is no refresh token');
      const tokens = { refreshToken, ...(await provider.refresh(refreshToken)) };
      await storeTokens(session, tokens, lease);
      return 'refreshed';
    } catch (error) {
      if (isRejection(error)) {
        return (await endRejectedSession(session, lease.expiry)) ? 'refused' : undefined;
      }
      await updateIfVersionUnchanged(db, session)
        .set({ refresh_lease_until: null })
        .where(whereLeaseIs(lease.expiry))
        .execute();
      throw error;
    }
  }

  /** Stores tokens. Retries failures, because the provider may no longer accept the previous refresh token. */
  async function storeTokens(
    session: AuthSession,
    tokens: Parameters<typeof vault.seal>[0],
    { storeDeadline }: RefreshLease,
  ): Promise<void> {
    const columns = await vault.seal(tokens, session);
    for (;;) {
      try {
        await updateIfVersionUnchanged(db, session)
          .set({
            ...columns,
            token_version: session.token_version + 1,
            refresh_lease_until: null,
          })
          .execute();
        return;
      } catch (error) {
        if (performance.now() + STORE_RETRY_MS >= storeDeadline) throw error;
        await sleep(STORE_RETRY_MS);
      }
    }
  }

  return (session: AuthSession) =>
    shareRefresh(`${session.id} ${session.token_version}`, () =>
      refresh(session).catch((error: unknown) => {
        const failure = toRequestError(error);
        const isProblem = failure instanceof ProblemError;
        if (isProblem && failure.code === 'provider_unavailable') {
          metrics.countRefresh('unavailable');
        }
        throw failure;
      }),
    );
}

function updateIfVersionUnchanged(db: Kysely<Tables>, { id, token_version }: AuthSession) {
  return db
    .updateTable('user_auth_sessions')
    .where('id', '=', id)
    .where('token_version', '=', token_version);
}

/** Creates a function that shares one result or error among concurrent callers with the same key. */
export function createSingleFlight<Result>() {
  const flights = new Map<string, Promise<Result>>();
  return (key: string, work: () => Promise<Result>): Promise<Result> => {
    const pendingFlight = flights.get(key);
    if (pendingFlight !== undefined) return pendingFlight;
    const flight = work().finally(() => flights.delete(key));
    flights.set(key, flight);
    return flight;
  };
}
