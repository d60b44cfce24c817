import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import {
  connect,
  type Database,
  migrate,
  type MigrationResult,
  createOfflineDatabase,
} from '@oselya/db';
import { closeServer, createLogger, listen, type Logger, type Server } from '@oselya/kit';
import { type AssistantDatabase, createApp } from './app.ts';
import { type Config, readConfig, findUnsafeSettings } from './config.ts';
import type { Tables } from './tables.ts';

export { configSchema, readConfig } from './config.ts';
export { errors } from './errors.ts';
export {
  assignLegacy,
  isEmptyReport,
  type LegacyReport,
  UnknownUserError,
} from './assign-legacy.ts';
export type { Tables } from './tables.ts';

const SHUTDOWN_TIMEOUT_MS = 30_000;

/**
 * Starts the assistant: reads the configuration, opens and migrates the database, and listens.
 * @param sharedResources Resources of the process, which `close` leaves open.
 * @throws ConfigError, DatabaseError or StartError, each with a message for the operator.
 */
export async function start(
  env: NodeJS.ProcessEnv = process.env,
  sharedResources: {
    database?: Pick<Database<never>, 'db' | 'pool' | 'listen' | 'isExclusive'>;
    log?: Logger;
    hasConsole?: boolean;
  } = {},
): Promise<{ url: string; close: () => Promise<void> }> {
  const config = readConfig(env);
  const log =
    sharedResources.log ?? createLogger({ level: config.LOG_LEVEL, service: 'assistant' });
  for (const warning of findUnsafeSettings(config)) log.warn(warning);

  await using resources = new AsyncDisposableStack();
  const database =
    sharedResources.database ??
    resources.adopt(await openDatabase(config, log), (connection) => connection.close());
  await migrateDatabase(env, database);

  const app = await createApp({
    config,
    database: database as unknown as AssistantDatabase,
    log,
    ...(sharedResources.hasConsole === false && { hasConsole: false }),
  });
  resources.defer(() => closeServer(app, SHUTDOWN_TIMEOUT_MS));
  const url = await listen(app, {
    host: config.ASSISTANT_HOST,
    port: config.ASSISTANT_PORT,
    variable: 'ASSISTANT_PORT',
  });
  log.info({ url }, 'assistant listens');
  const ownResources = resources.move();
  return { url, close: () => ownResources.disposeAsync() };
}

function openDatabase(config: Config, log: Logger): Promise<Database<never>> {
  return connect<never>({
    url: config.DATABASE_URL,
    dataDir: config.DATA_DIR,
    onError: (error) => log.warn({ err: error }, 'a database connection broke'),
    onWarning: (message) => log.warn(message),
  });
}

/** Creates or updates the assistant's tables. The command migrates all apps through this signature. */
export function migrateDatabase(
  _env: NodeJS.ProcessEnv,
  database: Pick<Database<never>, 'pool'>,
): Promise<MigrationResult> {
  return migrate(database, {
    component: 'assistant',
    folder: fileURLToPath(new URL('../migrations', import.meta.url)),
  });
}

/** Returns the OpenAPI document without a database. */
export const openapi = (): Promise<unknown> => readFromApp((app) => Promise.resolve(app.swagger()));

/** Returns the AsyncAPI document of the WebSocket protocol without a database. */
export const asyncapi = (): Promise<unknown> =>
  readFromApp(async (app) => (await app.inject('/asyncapi.json')).json());

/** Returns the metrics of a fresh process without a database. */
export const metrics = (): Promise<string> =>
  readFromApp(async (app) => (await app.inject('/metrics')).body);

async function readFromApp<Result>(read: (app: Server) => Promise<Result>): Promise<Result> {
  const app = await createApp({
    config: readConfig({ SVC_AUTH_ENCRYPTION_KEY: randomBytes(32).toString('base64url') }),
    database: createOfflineDatabase<Tables>(),
    log: createLogger({ level: 'silent', service: 'assistant' }),
  });
  try {
    return await read(app);
  } finally {
    await app.close();
  }
}
