import { generateKeyPair, randomBytes } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import type { JWKS } from 'oidc-provider';

/** What the provider signs with: ID tokens with `jwks`, its own cookies with `cookieKeys`. */
export type ProviderKeys = {
  jwks: JWKS;
  cookieKeys: string[];
};

/**
 * Gives the provider's keys, generated on the first start and the same ones ever after, so that
 * cookies and ID tokens stay valid across restarts.
 */
export async function loadKeys(database: DatabaseSync): Promise<ProviderKeys> {
  const stored = readKeys(database);
  if (stored) return stored;

  const generated: ProviderKeys = {
    jwks: { keys: [await generateSigningKey()] },
    cookieKeys: [randomBytes(32).toString('base64url')],
  };
  // Another process may have been first while the key was being made: its keys win for both.
  database
    .prepare('insert into settings (name, value) values (?, ?) on conflict do nothing')
    .run('keys', JSON.stringify(generated));
  return readKeys(database) ?? generated;
}

function readKeys(database: DatabaseSync): ProviderKeys | undefined {
  const row = database.prepare('select value from settings where name = ?').get('keys');
  if (!row) return undefined;
  // The only writer is `loadKeys`, so the text has the shape written there.
  const keys: ProviderKeys = JSON.parse(String(row['value']));
  return keys;
}

// RS256 because it is the one algorithm every OpenID Connect client must accept
// (OpenID Connect Core 1.0 §15.1).
async function generateSigningKey(): Promise<JWKS['keys'][number]> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), kty: 'RSA', use: 'sig', alg: 'RS256' };
}
