import { resolve } from 'node:path';
import { configSchema as assistantConfig, start as startAssistant } from '@oselya/assistant';
import { start as startCollector } from '@oselya/collector';
import { connect } from '@oselya/db';
import { commonConfig, createLogger, integer, loadConfig, onShutdown } from '@oselya/kit';
import { Type } from 'typebox';
import { startIdentityProvider } from './identity-provider.ts';
import { loadSamples, queueDrained, type SampleOptions } from './samples.ts';
import { devSecrets } from './secrets.ts';
import { summary } from './summary.ts';

const HOST = '127.0.0.1';
const port = (fallback: number) => integer({ default: fallback, min: 1, max: 65_535 });

const devConfig = Type.Object({
  ...commonConfig,
  ASSISTANT_PORT: port(8000),
  DEV_IDP_PORT: port(8002),
});
const originConfig = Type.Pick(assistantConfig, ['BASE_URL']);

/**
 * Runs the whole platform in one process: the assistant, the collector with its worker, the
 * development identity provider, which also serves the pictures of the sample listings, and, unless
 * `DATABASE_URL` is set, the embedded database. Ends when the process is told to stop. Contract 1.
 */
export async function dev({
  env,
  print,
}: {
  env: NodeJS.ProcessEnv;
  print: (line: string) => void;
}): Promise<void> {
  const started = performance.now();
  const { config, appEnv } = readSettings(env);
  const { DATABASE_URL: url, DATA_DIR: dataDir, DEV_IDP_PORT } = config;
  const log = createLogger({ level: config.LOG_LEVEL, service: 'dev' });
  const stopping = new AbortController();

  await using running = new AsyncDisposableStack();
  const database = await connect<never>({
    url,
    dataDir,
    onError: (error) => log.warn({ err: error }, 'a database connection broke'),
  });
  running.defer(database.close);

  const secrets = devSecrets(dataDir);
  const idp = await startIdentityProvider({
    host: HOST,
    port: DEV_IDP_PORT,
    client: {
      id: appEnv.IDP_CLIENT_ID,
      secret: secrets.IDP_CLIENT_SECRET,
      redirectUris: [appEnv.IDP_REDIRECT_URI],
    },
    dataDir,
  });
  running.defer(idp.close);

  const shared = { database, log };
  const collector = await startCollector({ ...appEnv, ...secrets }, shared);
  running.defer(() => collector.close());
  const assistant = await startAssistant({ ...appEnv, ...secrets }, shared);
  running.defer(() => assistant.close());
  running.defer(() => stopping.abort());

  const samples: SampleOptions = {
    dataDir,
    collectorUrl: collector.url,
    imagesOrigin: appEnv.IDP_BASE_URL,
    signal: stopping.signal,
  };
  const stopped = onShutdown(log, () => running.disposeAsync());
  try {
    const sent = await loadSamples(samples);
    print(
      summary({
        assistantUrl: assistant.url,
        collectorUrl: collector.url,
        idpUrl: appEnv.IDP_BASE_URL,
        dataDir,
        accounts: idp.accounts,
        seconds: (performance.now() - started) / 1000,
        samples: sent,
      }),
    );
    if (sent > 0) void reportProcessed(samples, print);
  } catch (error) {
    // Whoever stops it while the samples are being sent needs no error about that.
    if (!stopping.signal.aborted) throw error;
  }
  await stopped;
}

/** What the development platform itself needs to know, and the environment that it gives the apps. */
function readSettings(env: NodeJS.ProcessEnv) {
  // Requests are not logged unless asked for: the summary is what a newcomer has to read.
  const quietEnv = { ...env, LOG_LEVEL: env['LOG_LEVEL'] || 'warn' };
  const config = loadConfig(devConfig, quietEnv);
  const { BASE_URL } = loadConfig(originConfig, {
    BASE_URL: env['BASE_URL']?.trim() || `http://${HOST}:${config.ASSISTANT_PORT}`,
  });
  const appEnv = {
    ...quietEnv,
    BASE_URL,
    IDP_BASE_URL: `http://${HOST}:${config.DEV_IDP_PORT}`,
    IDP_CLIENT_ID: 'oselya',
    IDP_REDIRECT_URI: new URL('/auth/callback', BASE_URL).href,
    SSRF_ALLOW: [env['SSRF_ALLOW'], HOST].filter(Boolean).join(','),
  };
  return { config: { ...config, DATA_DIR: resolve(config.DATA_DIR) }, appEnv };
}

async function reportProcessed(
  samples: SampleOptions,
  print: (line: string) => void,
): Promise<void> {
  try {
    const { completed = 0, invalid = 0, failed = 0 } = await queueDrained(samples);
    print(
      `  The sample listings are processed: ${completed} completed, ${invalid} no listing, ${failed} failed.`,
    );
  } catch (error) {
    if (!samples.signal.aborted)
      print(`  The sample listings could not be followed: ${String(error)}`);
  }
}
