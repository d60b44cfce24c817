import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { readConfig as readAssistant } from '@oselya/assistant';
import { readConfig as readCollector } from '@oselya/collector';
import { loadConfig, loadConfigs, StartError } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { generateKey } from '../command.ts';
import { devConfig } from '../config.ts';
import { parseJson } from '../http.ts';

export const DEFAULT_HOST = '127.0.0.1';

export type DevSettings = ReturnType<typeof readSettings>;

/**
 * Reads the settings of `oselya dev` and creates the environment of its apps.
 * @throws ConfigError that names each invalid variable once. Contract 1.
 */
export function readSettings(env: NodeJS.ProcessEnv) {
  // Request logs would hide the summary.
  const quietEnv = { ...env, LOG_LEVEL: env['LOG_LEVEL']?.trim() || 'warn' };
  // Default ports prevent a second error about the same invalid port.
  let config = loadConfig(devConfig, {});
  const createEnv = () => createAppEnvironment(quietEnv, config);
  const [, assistant, collector] = loadConfigs(
    () => (config = loadConfig(devConfig, quietEnv)),
    () => readAssistant({ ...createEnv(), SVC_AUTH_ENCRYPTION_KEY: generateKey() }),
    () => readCollector(createEnv()),
  );
  return {
    config: { ...config, DATA_DIR: resolve(config.DATA_DIR) },
    appEnv: createEnv(),
    webhookUrl: getWebhookUrl(assistant),
    requiresKeys: collector.COLLECTOR_AUTH === 'required',
    collectorKey: assistant.COLLECTOR_API_KEY,
    collectorAdminKey: assistant.COLLECTOR_ADMIN_API_KEY,
    ignoredVariables: RESERVED_VARIABLES.filter((name) => (env[name] ?? '').trim() !== ''),
  };
}

const RESERVED_VARIABLES = [
  'IDP_BASE_URL',
  'IDP_CLIENT_ID',
  'IDP_CLIENT_SECRET',
  'IDP_REDIRECT_URI',
  'IDP_WEBHOOK_SECRET',
  'SVC_AUTH_ENCRYPTION_KEY',
];

/** Loopback addresses of a server that listens on all addresses. */
const LOOPBACK_HOSTS: Readonly<Record<string, string>> = { '0.0.0.0': DEFAULT_HOST, '::': '::1' };

/**
 * Returns the webhook URL of the assistant on this machine. BASE_URL may be a public name that only other
 * machines can resolve.
 */
function getWebhookUrl(assistant: { ASSISTANT_HOST: string; ASSISTANT_PORT: number }): string {
  const host = LOOPBACK_HOSTS[assistant.ASSISTANT_HOST] ?? assistant.ASSISTANT_HOST;
  const name = host.includes(':') ? `[${host}]` : host;
  return `http://${name}:${assistant.ASSISTANT_PORT}/webhooks/idp`;
}

function createAppEnvironment(
  env: NodeJS.ProcessEnv,
  ports: { ASSISTANT_PORT: number; DEV_IDP_PORT: number },
) {
  // `URL.origin` drops the default port, which an origin must not contain.
  const origin =
    env['BASE_URL']?.trim() || new URL(`http://${DEFAULT_HOST}:${ports.ASSISTANT_PORT}`).origin;
  return {
    ...env,
    BASE_URL: origin,
    IDP_BASE_URL: `http://${DEFAULT_HOST}:${ports.DEV_IDP_PORT}`,
    IDP_CLIENT_ID: 'oselya',
    // An invalid origin is reported as an error in BASE_URL.
    IDP_REDIRECT_URI: URL.parse('/auth/callback', origin)?.href ?? '',
    SSRF_ALLOW: [env['SSRF_ALLOW'], DEFAULT_HOST].filter(Boolean).join(','),
  };
}

const secretsSchema = Type.Object({
  SVC_AUTH_ENCRYPTION_KEY: Type.String({ minLength: 43 }),
  IDP_CLIENT_SECRET: Type.String({ minLength: 16 }),
  IDP_WEBHOOK_SECRET: Type.String({ minLength: 16 }),
});

export type DevSecrets = Static<typeof secretsSchema>;

/**
 * Reads the development secrets, or generates them on the first start. Only the owner can read the file.
 * @throws StartError if the file is damaged; new secrets would make stored tokens unreadable.
 */
export function readSecrets(dataDir: string): DevSecrets {
  const path = join(dataDir, 'secrets.json');
  if (!existsSync(path)) {
    const secrets: DevSecrets = {
      SVC_AUTH_ENCRYPTION_KEY: generateKey(),
      IDP_CLIENT_SECRET: randomBytes(24).toString('base64url'),
      IDP_WEBHOOK_SECRET: randomBytes(24).toString('base64url'),
    };
    mkdirSync(dataDir, { recursive: true });
    // The rename prevents a partial file after a crash.
    writeFileSync(`${path}.tmp`, `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600 });
    renameSync(`${path}.tmp`, path);
  }
  const secrets = parseJson(readFileSync(path, 'utf8'));
  if (Value.Check(secretsSchema, secrets)) return secrets;
  throw new StartError(
    `The development secrets in ${path} are damaged: restore the file, or delete the folder ${dataDir} to start afresh`,
  );
}
