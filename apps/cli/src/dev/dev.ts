import { fileURLToPath } from 'node:url';
import { start as startAssistant } from '@oselya/assistant';
import { start as startCollector, type Tables } from '@oselya/collector';
import { connect, type Database } from '@oselya/db';
import { createLogger, type Logger, onShutdown } from '@oselya/kit';
import { startIdentityProvider } from './identity-provider.ts';
import { samplesLoaded } from './samples.ts';
import { devSecrets } from './secrets.ts';
import { type SamplesStanding, sendSamples } from './send-samples.ts';
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
    print('\nOselya is stopping; Ctrl-C again ends it at once.');
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
    onWarning: (message) => log.warn(message),
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

  // What becomes of the sample listings stands below the summary.
  const summarized = Promise.withResolvers<void>();
  async function tell(line: string): Promise<void> {
    await summarized.promise;
    // Whoever stops it meanwhile needs to know nothing of that.
    if (!stopping.aborted) print(`  ${line}`);
  }

  let samples: SamplesStanding = 0;
  if (!samplesLoaded(dataDir)) {
    const key = keysRequired ? await makeKey('sample listings', ['ingest', 'admin']) : undefined;
    samples = await sendSamples({
      dataDir,
      collector: { url: collector.url, apiKey: key?.key },
      imagesOrigin: appEnv.IDP_BASE_URL,
      signal: stopping,
      onProcessed: () => key?.revoke(),
      tell: (line) => void tell(line),
    });
  }
  if (!stopping.aborted) {
    print(
      summary({
        assistantUrl: appEnv.BASE_URL,
        collectorUrl: collector.url,
        idpUrl: appEnv.IDP_BASE_URL,
        dataDir,
        isEmbedded: url === undefined,
        accounts: idp.accounts,
        seconds: (performance.now() - started) / 1000,
        samples,
        keysRequired,
        ignored,
      }),
    );
  }
  summarized.resolve();
  const running = opened.move();
  return { close: () => running.disposeAsync() };
}
