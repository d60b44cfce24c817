import { fileURLToPath } from 'node:url';
import { start as startAssistant } from '@oselya/assistant';
import { start as startCollector, type Tables } from '@oselya/collector';
import { connect, type Database } from '@oselya/db';
import { createLogger, type Logger, onShutdown } from '@oselya/kit';
import { startIdentityProvider } from './identity-provider.ts';
import { loadSamples, queueDrained, samplesLoaded, type SampleOptions } from './samples.ts';
import { devSecrets } from './secrets.ts';
import { HOST, readSettings } from './settings.ts';
import { summary } from './summary.ts';
import { temporaryKey } from './temporary-key.ts';

/** The repository's own: the assistant looks its endpoints up there. */
const INVENTORY_FILE = fileURLToPath(
  new URL('../../../../inventory/endpoints.json', import.meta.url),
);

type KeyScopes = Parameters<typeof temporaryKey>[1]['scopes'];

type DevOptions = { env: NodeJS.ProcessEnv; print: (line: string) => void };

/**
 * Runs the whole platform in one process: the assistant, the collector with its worker, the
 * development identity provider, which also serves the pictures of the sample listings, and, unless
 * `DATABASE_URL` is set, the embedded database. Ends when the process is told to stop. Contract 1.
 */
export async function dev({ env, print }: DevOptions): Promise<void> {
  const settings = readSettings(env);
  const log = createLogger({ level: settings.config.LOG_LEVEL, service: 'dev' });
  const stopping = new AbortController();
  const starting = start({ settings, log, print, stopping: stopping.signal });
  // Listened for from the beginning: what is told to stop while it starts closes all the same.
  const stopped = onShutdown(log, async () => {
    stopping.abort();
    await (await starting).close();
  });
  await Promise.all([starting, stopped]);
}

async function start({
  settings: { config, appEnv, webhookUrl, keysRequired, collectorKey, ignored },
  log,
  print,
  stopping,
}: {
  settings: ReturnType<typeof readSettings>;
  log: Logger;
  print: (line: string) => void;
  stopping: AbortSignal;
}): Promise<{ close: () => Promise<void> }> {
  const started = performance.now();
  const { DATABASE_URL: url, DATA_DIR: dataDir, DEV_IDP_PORT } = config;

  await using opened = new AsyncDisposableStack();
  const database = await connect<never>({
    url,
    dataDir,
    onError: (error) => log.warn({ err: error }, 'a database connection broke'),
  });
  opened.defer(database.close);

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
    webhook: { url: webhookUrl, secret: secrets.IDP_WEBHOOK_SECRET },
    accessTokenSeconds: config.DEV_IDP_ACCESS_TOKEN_SECONDS,
    refreshTokenSeconds: config.DEV_IDP_REFRESH_TOKEN_SECONDS,
  });
  opened.defer(idp.close);

  const shared = { database, log };
  const collector = await startCollector({ ...appEnv, ...secrets }, shared);
  opened.defer(() => collector.close());
  // The collector's start has made its tables in the shared database.
  const tables = database as unknown as Database<Tables>;
  const makeKey = async (name: string, scopes: KeyScopes) => {
    const made = await temporaryKey(tables, { name: `oselya dev, ${name}`, scopes });
    opened.defer(made.revoke);
    return made;
  };
  const searchKey =
    keysRequired && collectorKey === '' ? await makeKey('assistant', ['search']) : undefined;
  const assistant = await startAssistant(
    {
      INVENTORY_FILE,
      ...appEnv,
      ...secrets,
      COLLECTOR_URL: collector.url,
      COLLECTOR_API_KEY: searchKey?.key ?? collectorKey,
    },
    shared,
  );
  opened.defer(() => assistant.close());

  const key =
    keysRequired && !samplesLoaded(dataDir)
      ? await makeKey('sample listings', ['ingest', 'admin'])
      : undefined;

  const samples: SampleOptions = {
    dataDir,
    collectorUrl: collector.url,
    imagesOrigin: appEnv.IDP_BASE_URL,
    signal: stopping,
    key,
  };
  try {
    const sent = await loadSamples(samples);
    print(
      summary({
        assistantUrl: appEnv.BASE_URL,
        collectorUrl: collector.url,
        idpUrl: appEnv.IDP_BASE_URL,
        dataDir,
        isEmbedded: url === undefined,
        accounts: idp.accounts,
        seconds: (performance.now() - started) / 1000,
        samples: sent,
        keysRequired,
        ignored,
      }),
    );
    if (sent > 0) void reportProcessed(samples, print);
  } catch (error) {
    // Whoever stops it while the samples are being sent needs no error about that.
    if (!stopping.aborted) throw error;
  }
  const running = opened.move();
  return { close: () => running.disposeAsync() };
}

async function reportProcessed(
  samples: SampleOptions,
  print: (line: string) => void,
): Promise<void> {
  try {
    const { completed = 0, invalid = 0, failed = 0 } = await queueDrained(samples);
    await samples.key?.revoke();
    print(
      `  The sample listings are processed: ${completed} completed, ${invalid} no listing, ${failed} failed.`,
    );
  } catch (error) {
    if (!samples.signal.aborted)
      print(`  The sample listings could not be followed: ${String(error)}`);
  }
}
