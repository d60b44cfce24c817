/** Who is signed in, as everybody else uses it. */

export { alive, type Lifetime, sweepSessions } from './auth-sessions.sql.ts';
export { type Resolution, type ResolveSession } from './current-user.ts';
export { createIdentity, type Identity, lifetimeOf } from './identity.ts';
export {
  clearAccess,
  endAllSessions,
  endProviderSession,
  endSessions,
  type ProviderSession,
  setCachedRole,
  sweepInvalidations,
  USER_CHANNEL,
} from './invalidation.sql.ts';
export { neverStored } from './http.ts';
export { createIdentityMetrics, type IdentityMetrics } from './metrics.ts';
export { cachedAccess, readOwnAccount } from './own-account.sql.ts';
export { outageAsProblem } from './provider/provider-error.ts';
export { ownSignInRoutes } from './own-sign-ins-routes.ts';
export { sweepPendingLogins } from './pending-logins.sql.ts';
export { parseProviderJson, readProviderId } from './provider/user-id.ts';
export { type RevocationQueue } from './revocation-queue.ts';
export { identityRoutes } from './routes.ts';
export { pageAnswer, userMembers } from './schemas.ts';
export { sweepTerminalSignIns } from './terminal/repository.ts';
export { terminalRoutes } from './terminal/routes.ts';
export { readPermissions, readRole } from './users.ts';
