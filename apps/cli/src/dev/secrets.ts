import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { StartError } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { generateKey } from '../encryption-key.ts';

const secretsSchema = Type.Object({
  SVC_AUTH_ENCRYPTION_KEY: Type.String({ minLength: 43 }),
  IDP_CLIENT_SECRET: Type.String({ minLength: 16 }),
  IDP_WEBHOOK_SECRET: Type.String({ minLength: 16 }),
});

/** The secrets, by the variables that they stand for. */
export type DevSecrets = Static<typeof secretsSchema>;

/**
 * The secrets of a development platform: made on the first start, read on the next, readable by their
 * owner alone.
 * @throws StartError where the file was damaged; new secrets would make stored tokens unreadable.
 */
export function devSecrets(dataDir: string): DevSecrets {
  const path = join(dataDir, 'secrets.json');
  if (!existsSync(path)) write(path, dataDir);
  const secrets = read(path);
  if (!Value.Check(secretsSchema, secrets)) {
    throw new StartError(
      `The development secrets in ${path} are damaged: restore the file, or delete the folder ${dataDir} to start afresh`,
    );
  }
  return secrets;
}

function read(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

function write(path: string, dataDir: string): void {
  const secrets: DevSecrets = {
    SVC_AUTH_ENCRYPTION_KEY: generateKey(),
    IDP_CLIENT_SECRET: randomBytes(24).toString('base64url'),
    IDP_WEBHOOK_SECRET: randomBytes(24).toString('base64url'),
  };
  mkdirSync(dataDir, { recursive: true });
  // Written aside and renamed: a kill in between leaves no half file.
  const temporary = `${path}.tmp`;
  writeFileSync(temporary, `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600 });
  renameSync(temporary, path);
}
