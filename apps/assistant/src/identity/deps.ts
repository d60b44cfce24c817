import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Config } from '../config.ts';
import type { Tables } from '../tables.ts';
import type { IdentityMetrics } from './metrics.ts';
import { createProvider } from './provider/provider.ts';
import { createTokenVault } from './token-vault.ts';

export type IdentityDeps = ReturnType<typeof createIdentityDeps>;

/** Creates the provider client and the token vault. */
export function createIdentityDeps(options: {
  config: Config;
  db: Kysely<Tables>;
  log: Logger;
  metrics: IdentityMetrics;
}) {
  const { config, metrics } = options;
  return {
    ...options,
    provider: createProvider(config, metrics.measureRequest),
    vault: createTokenVault(config.SVC_AUTH_ENCRYPTION_KEY, config.SVC_AUTH_ENCRYPTION_KEYS_OLD),
  };
}
