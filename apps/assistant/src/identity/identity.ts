import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ResolvedUser } from '../access/permissions.ts';
import { findActiveAuthSessions, findAuthSession } from './auth-sessions.ts';
import { createCookies } from './cookies.ts';
import { createSessionResolver } from './current-user.ts';
import { createIdentityDeps } from './deps.ts';
import { createSignInService } from './sign-in.ts';
import { createSignOutService } from './sign-out.ts';
import { createTokenRevocation } from './token-revocation.ts';

export type Identity = ReturnType<typeof createIdentity>;

/** Creates the identity service. */
export function createIdentity(options: Parameters<typeof createIdentityDeps>[0]) {
  const deps = createIdentityDeps(options);
  const { db, config, provider } = deps;
  const tokenRevocation = createTokenRevocation(deps);
  const signOut = createSignOutService(deps, tokenRevocation.wake);
  const resolve = createSessionResolver(deps, signOut.endRejectedSession);
  const cookies = createCookies(config);

  /**
   * Resolves the user of a request, and clears an invalid cookie. An unreadable auth session keeps its cookie.
   * Contract 3, Auth session.
   * @param knownUser Earlier result for the same request.
   */
  async function resolveRequestUser(
    request: FastifyRequest,
    reply: FastifyReply,
    knownUser?: ResolvedUser,
  ): Promise<ResolvedUser | undefined> {
    if (!cookies.hasSession(request)) return undefined;
    const sessionId = cookies.sessionId(request);
    const resolution = sessionId && (await resolve(sessionId, knownUser));
    if (!resolution || resolution.status === 'unknown') cookies.clearSession(reply);
    return resolution && resolution.status === 'signed-in' ? resolution : undefined;
  }

  return {
    provider,
    cookies,
    resolveRequestUser,
    resolve,
    /** Returns an active auth session by its ID, without a request to the provider. */
    findSession: (sessionId: string) => findAuthSession(db, sessionId, config),
    findActive: (sessionIds: readonly string[]) => findActiveAuthSessions(db, sessionIds, config),
    tokenRevocation,
    signIn: createSignInService(deps),
    signOut,
  };
}
