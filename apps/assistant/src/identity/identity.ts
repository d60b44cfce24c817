import type { Logger } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Kysely } from 'kysely';
import type { KnownUser } from '../access/permissions.ts';
import type { Config } from '../config.ts';
import type { Tables } from '../tables.ts';
import { createCookies } from './cookies.ts';
import { createCurrentUser } from './current-user.ts';
import type { IdentityMetrics } from './metrics.ts';
import { createProvider } from './provider/provider.ts';
import { type Lifetime, livingSessions } from './sessions.ts';
import { createSignIn } from './sign-in.ts';
import { createSignOut } from './sign-out.ts';
import { createTerminalSignIns } from './terminal.ts';
import { createTokenRefresh } from './token-refresh.ts';
import { createTokenRevocation } from './token-revocation.ts';
import { createTokenVault } from './token-vault.ts';

/** Sign-in, sign-out, and the current user. */
export type Identity = ReturnType<typeof createIdentity>;

/** Returns the configured lifetime of sign-ins. */
export const lifetimeOf = (config: Config): Lifetime => ({
  lifetimeDays: config.SVC_AUTH_COOKIE_MAX_AGE_DAYS,
  idleDays: config.SVC_AUTH_IDLE_DAYS,
});

/** Composes the parts of identity. */
export function createIdentity({
  config,
  db,
  log,
  metrics,
}: {
  config: Config;
  db: Kysely<Tables>;
  log: Logger;
  metrics: IdentityMetrics;
}) {
  const lifetime = lifetimeOf(config);
  const provider = createProvider(config, metrics.measureRequest);
  const vault = createTokenVault(
    config.SVC_AUTH_ENCRYPTION_KEY,
    config.SVC_AUTH_ENCRYPTION_KEYS_OLD,
  );
  const deps = {
    db,
    log,
    provider,
    vault,
    metrics,
    lifetime,
    rules: { ...lifetime, userMaxAgeSeconds: config.IDP_USER_MAX_AGE_SECONDS },
    providerTimeoutMs: config.IDP_TIMEOUT_MS,
  };
  const tokenRevocation = createTokenRevocation(deps);
  const signOut = createSignOut({
    ...deps,
    tokenRevocation,
    endsProviderSession: config.IDP_END_SESSION,
  });
  const { endRejected } = signOut;
  const refresh = createTokenRefresh({ ...deps, endRejected });
  const resolve = createCurrentUser({ ...deps, endRejected, refresh });
  const cookies = createCookies(config);

  /**
   * Resolves the user of a request. A missing or invalid cookie resolves to undefined, and the answer clears it.
   * Contract 3, Auth session.
   * @param known The earlier result for the same request.
   */
  async function currentUser(
    request: FastifyRequest,
    reply: FastifyReply,
    known?: KnownUser,
  ): Promise<KnownUser | undefined> {
    if (!cookies.hasSession(request)) return undefined;
    const sessionId = cookies.sessionId(request);
    const resolution =
      sessionId === null ? ({ status: 'unknown' } as const) : await resolve(sessionId, known);
    if (resolution.status === 'signed-in') return resolution;
    if (resolution.status === 'unknown') cookies.clearSession(reply);
    return undefined;
  }

  return {
    provider,
    cookies,
    lifetime,
    currentUser,
    resolve,
    living: (sessionIds: readonly string[]) => livingSessions(db, sessionIds, lifetime),
    tokenRevocation,
    signIn: createSignIn(deps),
    signOut,
    terminalSignIns: createTerminalSignIns(deps),
  };
}
