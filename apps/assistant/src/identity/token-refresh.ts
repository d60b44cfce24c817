import { setTimeout as sleep } from 'node:timers/promises';
import { isLeaseFree, leaseExpiry } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import type { IdentityDeps } from './deps.ts';
import type { RefreshOutcome } from './metrics.ts';
import type { Tokens } from './provider/provider.ts';
import {
  isProviderUnavailableError,
  isRejection,
  toRequestError,
  ProviderError,
  createProviderUnavailableError,
} from './provider/transport.ts';
import {
  type AuthSession,
  findAuthSession,
  type SealedTokens,
  buildTokenColumns,
} from './auth-sessions.ts';

/** Limit of provider requests under one lease: the token request, and a fetch of rotated keys. */
const MAX_CALLS = 2;
/** Time reserved for storing the tokens. */
const LEASE_MARGIN_MS = 10_000;
const POLL_MS = { first: 25, max: 250 };
const STORE_RETRY_MS = 500;

/** Ends an auth session with rejected tokens, unless its tokens were refreshed. Returns whether it ended. */
export type EndRejectedSession = (
  session: Pick<AuthSession, 'id' | 'userId' | 'tokenVersion'>,
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
 *                 ├─▶ rejected: delete the row if its version is still the same
 *                 └─▶ no answer: release, 503
 * ```
 *
 * @returns A function that returns the auth session with newer tokens, or undefined if the auth session has ended. It
 *   throws `provider_unavailable` or UnreadableTokenError.
 */
export function createTokenRefresh(deps: IdentityDeps, endRejected: EndRejectedSession) {
  const { db, provider, vault, metrics, rules } = deps;
  const providerTimeoutMs = deps.config.IDP_TIMEOUT_MS;
  const leaseMs = MAX_CALLS * providerTimeoutMs + LEASE_MARGIN_MS;
  const share = createSingleFlight<AuthSession | undefined>();

  async function refresh(session: AuthSession): Promise<AuthSession | undefined> {
    const deadline = performance.now() + providerTimeoutMs;
    // Discovery and keys are fetched before the lease begins.
    await provider.prepare();
    for (;;) {
      const leaseEnd = performance.now() + leaseMs;
      const acquired = await updateIfVersionUnchanged(db, session)
        .set({ refresh_lease_until: leaseExpiry(leaseMs) })
        .where(isLeaseFree('refresh_lease_until'))
        .returning(sql<string>`refresh_lease_until::text`.as('lease'))
        .executeTakeFirst();
      if (acquired !== undefined) return redeem(session, acquired.lease, leaseEnd);
      const winner = await waitForWinner(session, deadline);
      if (winner !== 'expired') return finish('waited', winner);
    }
  }

  async function waitForWinner(
    session: AuthSession,
    deadline: number,
  ): Promise<AuthSession | undefined | 'expired'> {
    for (let delayMs = POLL_MS.first; ; delayMs = Math.min(delayMs * 2, POLL_MS.max)) {
      const current = await findAuthSession(db, session.id, rules);
      if (current === undefined || current.tokenVersion !== session.tokenVersion) return current;
      if (current.refreshLease === 'expired') return 'expired';
      const leftMs = deadline - performance.now();
      if (current.refreshLease === 'free' || leftMs <= 0) throw createProviderUnavailableError();
      await sleep(Math.min(delayMs, leftMs));
    }
  }

  /** @param lease Expiry of the lease, which fences its release. */
  async function redeem(
    session: AuthSession,
    lease: string,
    leaseEnd: number,
  ): Promise<AuthSession | undefined> {
    let tokens: Tokens;
    try {
      const refreshToken = await vault.open(session.refreshTokenEnc, session, 'refresh_token_enc');
      if (refreshToken === '') throw new ProviderError('rejected', 'there is no refresh token');
      tokens = { refreshToken, ...(await provider.refresh(refreshToken)) };
    } catch (error) {
      if (!isRejection(error)) {
        await updateIfVersionUnchanged(db, session)
          .set({ refresh_lease_until: null })
          .where('refresh_lease_until', '=', sql<Date>`${lease}::timestamptz`)
          .execute();
        throw error;
      }
      if (await endRejected(session)) return finish('refused', undefined);
      return finish('waited', await findAuthSession(db, session.id, rules));
    }
    await store(session, await vault.sealTokens(tokens, session), leaseEnd);
    // The auth session may have ended during the refresh.
    return finish('refreshed', await findAuthSession(db, session.id, rules));
  }

  /** Retries until the lease expires, because the provider has already spent the earlier refresh token. */
  async function store(session: AuthSession, tokens: SealedTokens, leaseEnd: number) {
    for (;;) {
      try {
        await updateIfVersionUnchanged(db, session)
          .set({
            ...buildTokenColumns(tokens),
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
        const failure = toRequestError(error);
        if (isProviderUnavailableError(failure)) metrics.countRefresh('unavailable');
        throw failure;
      }),
    );
}

/** Builds an update of the auth session that applies only if its token version is unchanged. */
function updateIfVersionUnchanged(db: Kysely<Tables>, { id, tokenVersion }: AuthSession) {
  return db
    .updateTable('user_auth_sessions')
    .where('id', '=', id)
    .where('token_version', '=', tokenVersion);
}

/** Creates a function that shares one result or error among concurrent callers with the same key. */
export function createSingleFlight<Result>(): (
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
