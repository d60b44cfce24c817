import type { Logger } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Kysely } from 'kysely';
import type { KnownUser } from '../access/permissions.ts';
import type { Config } from '../config.ts';
import type { Tables } from '../tables.ts';
import { type Lifetime, livingSessions } from './auth-sessions.sql.ts';
import { createCookies } from './cookies.ts';
import { createCurrentUser, type Resolution } from './current-user.ts';
import { createEndRefused } from './end-refused.ts';
import { createFinishSignIn } from './finish-sign-in.ts';
import type { IdentityMetrics } from './metrics.ts';
import { createOwnSignIns } from './own-sign-ins.ts';
import { createProvider } from './provider/provider.ts';
import { createRevocationQueue } from './revocation-queue.ts';
import { createRevocation } from './token-revocation.ts';
import { createSessionTokens } from './session-tokens.ts';
import { createSignIn } from './sign-in.ts';
import { createSignOut } from './sign-out.ts';
import { createTerminalSignIns } from './terminal/sign-ins.ts';
import { createTokenRefresh } from './token-refresh.ts';
import { createTokenVault, decodeKey } from './token-vault.ts';

/** Sign-in, sign-out, and who sends a request. */
export type Identity = ReturnType<typeof createIdentity>;

/** How long sign-ins last, as configured. */
export const lifetimeOf = (config: Config): Lifetime => ({
  lifetimeDays: config.SVC_AUTH_COOKIE_MAX_AGE_DAYS,
  idleDays: config.SVC_AUTH_IDLE_DAYS,
});

const UNKNOWN: Resolution = { status: 'unknown' };

/** Puts the parts of identity together: what the rest of the assistant uses of it. */
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
  const rules = { ...lifetime, userMaxAgeSeconds: config.IDP_USER_MAX_AGE_SECONDS };
  const provider = createProvider(config, { measure: metrics.measureRequest });
  const tokens = createSessionTokens(
    createTokenVault(
      decodeKey(config.SVC_AUTH_ENCRYPTION_KEY),
      config.SVC_AUTH_ENCRYPTION_KEYS_OLD.map(decodeKey),
    ),
  );
  const providerTimeoutMs = config.IDP_TIMEOUT_MS;
  const revoke = createRevocation({ log, provider, tokens });
  const revocations = createRevocationQueue({ db, revoke, log, providerTimeoutMs });
  const endRefused = createEndRefused({ db, log, metrics });
  const refresh = createTokenRefresh({
    db,
    provider,
    tokens,
    endRefused,
    revocations,
    metrics,
    providerTimeoutMs,
    rules,
  });
  const resolve = createCurrentUser({ db, log, provider, tokens, refresh, endRefused, rules });
  const finish = createFinishSignIn({
    db,
    log,
    provider,
    tokens,
    revocations,
    metrics,
    lifetime,
  });
  const cookies = createCookies(config);

  /**
   * Resolves the user of a request; nothing where its cookie is missing or not valid, in which case the
   * answer clears it. Contract 3, Auth session.
   * @param known What the request was resolved to before.
   */
  async function currentUser(
    request: FastifyRequest,
    reply: FastifyReply,
    known?: KnownUser,
  ): Promise<KnownUser | undefined> {
    if (!cookies.hasSession(request)) return undefined;
    const sessionId = cookies.sessionId(request);
    const resolution = sessionId === null ? UNKNOWN : await resolve(sessionId, known);
    if (resolution.status === 'signed-in') return resolution;
    if (resolution.status === 'unknown') cookies.clearSession(reply);
    return undefined;
  }

  return {
    provider,
    cookies,
    currentUser,
    resolve,
    living: (sessionIds: readonly string[]) => livingSessions(db, sessionIds, lifetime),
    revocations,
    signIn: createSignIn({ db, provider, finish, metrics }),
    terminalSignIns: createTerminalSignIns({ db, log }),
    signOut: createSignOut({
      db,
      log,
      revocations,
      metrics,
      provider: config.IDP_END_SESSION ? provider : undefined,
      tokens,
    }),
    ownSignIns: createOwnSignIns({ db, log, revocations, metrics, lifetime }),
  };
}
