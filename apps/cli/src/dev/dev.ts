import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import fastifyStatic from '@fastify/static';
import { start as startAssistant } from '@oselya/assistant';
import {
  createApiKeyStore,
  type SCOPES,
  start as startCollector,
  type Tables,
} from '@oselya/collector';
import { connect, type Database } from '@oselya/db';
import { createDevIdp, type DevIdp } from '@oselya/dev-idp';
import { createLogger, listen, type Logger, onShutdown, StartError } from '@oselya/kit';
import type { Context } from '../command.ts';
import {
  hasLoadedSamples,
  SAMPLE_IMAGES_FOLDER,
  sendSamples,
  type SamplesState,
} from './samples.ts';
import {
  DEFAULT_HOST,
  type DevSecrets,
  type DevSettings,
  readSecrets,
  readSettings,
} from './settings.ts';
import { formatSummary } from './summary.ts';

const ROOT = join(import.meta.dirname, '../../../..');
const INVENTORY_FILE = join(ROOT, 'inventory/endpoints.json');
const CONSOLE_BUILD_SCRIPT = join(ROOT, 'scripts/build-console.ts');

/**
 * Runs the whole platform in one process: the assistant, the collector with its worker, the development identity
 * provider, and, without `DATABASE_URL`, the embedded database. Returns after a stop signal, when everything is closed.
 * Contract 1.
 */
export async function dev({ env, print }: Pick<Context, 'env' | 'print'>): Promise<void> {
  const settings = readSettings(env);
  const log = createLogger({ level: settings.config.LOG_LEVEL, service: 'dev' });
  const stopController = new AbortController();
  const startup = start(settings, { log, print, signal: stopController.signal });
  // Register before startup completes, because an early signal must also close everything.
  const shutdown = onShutdown(log, async () => {
    stopController.abort();
    print('\nOselya is stopping; Ctrl-C again ends it immediately.');
    await (await startup).disposeAsync();
  });
  await Promise.all([startup, shutdown]);
}

async function start(
  settings: DevSettings,
  options: { log: Logger; print: Context['print']; signal: AbortSignal },
): Promise<AsyncDisposableStack> {
  const { log, print, signal } = options;
  const { config, appEnv, requiresKeys, collectorKey, collectorAdminKey } = settings;
  const { DATABASE_URL: url, DATA_DIR: dataDir } = config;
  const startedAt = performance.now();

  await using resources = new AsyncDisposableStack();
  const consoleBuild = buildConsole(log);
  const database = await connect<never>({
    url,
    dataDir,
    onError: (error) => log.warn({ err: error }, 'a database connection broke'),
    onWarning: (message) => log.warn(message),
  });
  resources.defer(database.close);
  const secrets = readSecrets(dataDir);
  const idp = await startIdentityProvider(settings, secrets);
  resources.defer(idp.close);
  const env = { ...appEnv, ...secrets };
  const sharedServices = { database, log };
  const collector = await startCollector(env, sharedServices);
  resources.defer(() => collector.close());

  // The collector has created its tables in the shared database, so the type is correct.
  const keys = createApiKeyStore(database as unknown as Database<Tables>);
  /** Creates an API key for this process. Revokes keys of the same name, which killed processes left behind. */
  async function createKey(purpose: string, scopes: (typeof SCOPES)[number][]) {
    const name = `oselya dev, ${purpose}`;
    for (const existingKey of await keys.list()) {
      if (existingKey.name === name && existingKey.revoked_at === null)
        await keys.revoke(existingKey.id);
    }
    const { id, key } = await keys.create({ name, scopes });
    const revoke = async () => void (await keys.revoke(id));
    resources.defer(revoke);
    return { key, revoke };
  }

  const searchKey =
    requiresKeys && collectorKey === ''
      ? await createKey('assistant', ['search', 'on_behalf'])
      : undefined;
  const adminKey =
    requiresKeys && collectorAdminKey === ''
      ? await createKey('administration', ['admin'])
      : undefined;
  await consoleBuild;
  const assistant = await startAssistant(
    {
      INVENTORY_FILE,
      ...env,
      COLLECTOR_URL: collector.url,
      COLLECTOR_API_KEY: searchKey?.key ?? collectorKey,
      COLLECTOR_ADMIN_API_KEY: adminKey?.key ?? collectorAdminKey,
    },
    sharedServices,
  );
  resources.defer(() => assistant.close());

  // Messages about the samples appear below the summary.
  const summaryOutput = Promise.withResolvers<void>();
  async function report(line: string): Promise<void> {
    await summaryOutput.promise;
    if (!signal.aborted) print(`  ${line}`);
  }

  let samples: SamplesState = 0;
  if (!hasLoadedSamples(dataDir)) {
    const key = requiresKeys ? await createKey('sample listings', ['ingest', 'admin']) : undefined;
    samples = await sendSamples({
      dataDir,
      collector: { url: collector.url, apiKey: key?.key },
      imagesOrigin: appEnv.IDP_BASE_URL,
      signal,
      onProcessed: () => key?.revoke(),
      report: (line) => void report(line),
    });
  }
  if (!signal.aborted) {
    print(
      formatSummary({
        assistantUrl: appEnv.BASE_URL,
        collectorUrl: collector.url,
        idpUrl: appEnv.IDP_BASE_URL,
        dataDir,
        isEmbedded: url === undefined,
        accounts: idp.accounts,
        seconds: (performance.now() - startedAt) / 1000,
        samples,
        requiresKeys,
        ignoredVariables: settings.ignoredVariables,
      }),
    );
  }
  summaryOutput.resolve();
  return resources.move();
}

/** Builds the console in a child process, if its files have changed. Otherwise this takes less than the database. */
async function buildConsole(log: Logger): Promise<void> {
  try {
    await promisify(execFile)(process.execPath, [CONSOLE_BUILD_SCRIPT, '--if-changed']);
  } catch (error) {
    log.warn({ err: error }, 'the console could not be built: run npm run build:console');
  }
}

/**
 * Starts the development identity provider, which also serves the sample images (docs/adr/0005-composition.md).
 * @throws StartError if its port is taken, or its store or client cannot be used.
 */
async function startIdentityProvider(
  { config, appEnv, webhookUrl }: DevSettings,
  secrets: DevSecrets,
): Promise<DevIdp> {
  const idp = await createDevIdp({
    issuer: appEnv.IDP_BASE_URL,
    client: {
      id: appEnv.IDP_CLIENT_ID,
      secret: secrets.IDP_CLIENT_SECRET,
      redirectUris: [appEnv.IDP_REDIRECT_URI],
    },
    webhook: { url: webhookUrl, secret: secrets.IDP_WEBHOOK_SECRET },
    accessTokenSeconds: config.DEV_IDP_ACCESS_TOKEN_SECONDS,
    refreshTokenSeconds: config.DEV_IDP_REFRESH_TOKEN_SECONDS,
    storeFile: join(config.DATA_DIR, 'identity-provider.sqlite'),
  }).catch((cause: Error) => {
    throw new StartError(cause.message, { cause });
  });
  const address = { host: DEFAULT_HOST, port: config.DEV_IDP_PORT, variable: 'DEV_IDP_PORT' };
  try {
    await idp.app.register(fastifyStatic, {
      root: SAMPLE_IMAGES_FOLDER,
      prefix: '/samples/images/',
    });
    await listen(idp.app, address);
    return idp;
  } catch (error) {
    await idp.close();
    throw error;
  }
}
