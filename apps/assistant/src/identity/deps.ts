import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Config } from '../config.ts';
import type { Tables } from '../tables.ts';
import type { IdentityMetrics } from './metrics.ts';
import { createProvider } from './provider/provider.ts';
import type { AuthSessionRules } from './auth-sessions.ts';
import { createTokenVault } from './token-vault.ts';

/** Shared dependencies of the identity modules. */
export type IdentityDeps = ReturnType<typeof createIdentityDeps>;

/** Reads the rules of auth sessions from the configuration. */
export const readAuthSessionRules = (config: Config): AuthSessionRules => ({
  lifetimeDays: config.SVC_AUTH_COOKIE_MAX_AGE_DAYS,
  idleDays: config.SVC_AUTH_IDLE_DAYS,
  userMaxAgeSeconds: config.IDP_USER_MAX_AGE_SECONDS,
});

/** Creates the client of the provider and the token vault. */
export function createIdentityDeps(options: {
  config: Config;
  db: Kysely<Tables>;
  log: Logger;
  metrics: IdentityMetrics;
}) {
  const { config, metrics } = options;
  return {
    ...options,
    rules: readAuthSessionRules(config),
    provider: createProvider(config, metrics.measureRequest),
    vault: createTokenVault(config.SVC_AUTH_ENCRYPTION_KEY, config.SVC_AUTH_ENCRYPTION_KEYS_OLD),
  };
}
