import { resolve } from 'node:path';
import { readConfig as readAssistant } from '@oselya/assistant';
import { readConfig as readCollector } from '@oselya/collector';
import { loadConfig, loadTogether } from '@oselya/kit';
import { generateKey } from '../encryption-key.ts';
import { devConfig } from '../config.ts';

/** Where the development platform listens unless told otherwise. */
export const HOST = '127.0.0.1';

/**
 * What `oselya dev` itself needs to know, and the environment that it gives the apps. Everything is
 * read here, before anything is opened.
 * @throws ConfigError naming every bad variable of the platform once. Contract 1.
 */
export function readSettings(env: NodeJS.ProcessEnv) {
  // Requests are not logged unless asked for: the summary is what a newcomer has to read.
  const quietEnv = { ...env, LOG_LEVEL: env['LOG_LEVEL']?.trim() || 'warn' };
  // The defaults stand in while the apps are read, so that a bad port is not a bad address as well.
  let config = loadConfig(devConfig, {});
  const [, assistant, collector] = loadTogether(
    () => (config = loadConfig(devConfig, quietEnv)),
    // The keys are made only when all is well.
    () =>
      readAssistant({
        ...appEnvironment(quietEnv, config),
        SVC_AUTH_ENCRYPTION_KEY: generateKey(),
      }),
    () => readCollector(appEnvironment(quietEnv, config)),
  );
  return {
    config: { ...config, DATA_DIR: resolve(config.DATA_DIR) },
    appEnv: appEnvironment(quietEnv, config),
    webhookUrl: webhookUrl(assistant),
    keysRequired: collector.COLLECTOR_AUTH === 'required',
    collectorKey: assistant.COLLECTOR_API_KEY,
    ignored: ignoredVariables(env),
  };
}

/** What the development provider is reached with, and the secrets that go with it. */
const OWN_VARIABLES = [
  'IDP_BASE_URL',
  'IDP_CLIENT_ID',
  'IDP_CLIENT_SECRET',
  'IDP_REDIRECT_URI',
  'IDP_WEBHOOK_SECRET',
  'SVC_AUTH_ENCRYPTION_KEY',
];

/** Variables that somebody has set, and that have another value here. */
function ignoredVariables(env: NodeJS.ProcessEnv): string[] {
  return OWN_VARIABLES.filter((name) => (env[name] ?? '').trim() !== '');
}

// What listens on every address of this machine is reached on the loopback one.
const EVERY_ADDRESS: Readonly<Record<string, string>> = { '0.0.0.0': HOST, '::': '::1' };

/**
 * Where the assistant hears the identity provider. Both run on this machine, while BASE_URL may be a
 * public name that is only known elsewhere, or leads through a proxy.
 */
function webhookUrl(assistant: { ASSISTANT_HOST: string; ASSISTANT_PORT: number }): string {
  const host = EVERY_ADDRESS[assistant.ASSISTANT_HOST] ?? assistant.ASSISTANT_HOST;
  const name = host.includes(':') ? `[${host}]` : host;
  return `http://${name}:${assistant.ASSISTANT_PORT}/webhooks/idp`;
}

function appEnvironment(
  env: NodeJS.ProcessEnv,
  ports: { ASSISTANT_PORT: number; DEV_IDP_PORT: number },
) {
  // As an origin is written: without the port that http has anyway.
  const origin =
    env['BASE_URL']?.trim() || new URL(`http://${HOST}:${ports.ASSISTANT_PORT}`).origin;
  return {
    ...env,
    BASE_URL: origin,
    IDP_BASE_URL: `http://${HOST}:${ports.DEV_IDP_PORT}`,
    IDP_CLIENT_ID: 'oselya',
    // An origin that is none is told of by its own name.
    IDP_REDIRECT_URI: URL.parse('/auth/callback', origin)?.href ?? '',
    SSRF_ALLOW: [env['SSRF_ALLOW'], HOST].filter(Boolean).join(','),
  };
}
