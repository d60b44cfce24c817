import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { connect, type Database, migrate, type MigrationResult, offlineDatabase } from '@oselya/db';
import { closeServer, createLogger, listen, type Logger, type Server } from '@oselya/kit';
import { type AssistantDatabase, createApp } from './app.ts';
import { type Config, readConfig, unsafeSettings } from './config.ts';
import type { Tables } from './tables.ts';

export { configSchema, readConfig } from './config.ts';
export { errors } from './errors.ts';
export {
  assignLegacy,
  foundNothing,
  type LegacyReport,
  UnknownUserError,
} from './assign-legacy.ts';
export type { Tables } from './tables.ts';

/** What the process has already and the assistant need not open. */
type Shared = {
  /** Left open by `close`. */
  database?: Pick<Database<never>, 'db' | 'pool' | 'listen'>;
  log?: Logger;
};

/** What requests in progress get at a shutdown: longer than the provider has for its answers. */
const SHUTDOWN_MS = 30_000;

/** Where the assistant listens, and how to stop it. */
type Running = { url: string; close: () => Promise<void> };

/**
 * Starts the assistant: reads the configuration, opens and migrates the database, and listens.
 * @throws ConfigError, DatabaseError or StartError, each with a message for who starts it.
 */
export async function start(
  env: NodeJS.ProcessEnv = process.env,
  shared: Shared = {},
): Promise<Running> {
  const config = readConfig(env);
  const log = shared.log ?? createLogger({ level: config.LOG_LEVEL, service: 'assistant' });
  for (const warning of unsafeSettings(config)) log.warn(warning);

  await using opened = new AsyncDisposableStack();
  const database = shared.database ?? opened.adopt(await open(config, log), (it) => it.close());
  await migrateDatabase(env, database);

  // A shared database is typed for none of its users: after the migration it has these tables.
  const own = database as unknown as AssistantDatabase;
  const app = await createApp({ config, database: own, log });
  opened.defer(() => closeServer(app, SHUTDOWN_MS));
  const url = await listen(app, {
    host: config.ASSISTANT_HOST,
    port: config.ASSISTANT_PORT,
    variable: 'ASSISTANT_PORT',
  });
  log.info({ url }, 'assistant listens');
  const resources = opened.move();
  return { url, close: () => resources.disposeAsync() };
}

function open(config: Config, log: Logger): Promise<Database<never>> {
  return connect<never>({
    url: config.DATABASE_URL,
    dataDir: config.DATA_DIR,
    onError: (error) => log.warn({ err: error }, 'a database connection broke'),
    onWarning: (message) => log.warn(message),
  });
}

/**
 * Creates or updates the assistant's tables. Specification 000, Versioning.
 * @param _env Not read: these tables depend on no setting. It stands here because a command migrates
 * all apps alike, and those of the collector depend on its settings.
 * @throws DatabaseError MIGRATION_FAILED.
 */
export function migrateDatabase(
  _env: NodeJS.ProcessEnv,
  database: Pick<Database<never>, 'pool'>,
): Promise<MigrationResult> {
  return migrate(database, {
    component: 'assistant',
    folder: fileURLToPath(new URL('../migrations', import.meta.url)),
  });
}

/** The OpenAPI document, made without a database and without listening. */
export async function openapi(): Promise<unknown> {
  return describe((app) => Promise.resolve(app.swagger()));
}

/** The AsyncAPI document of the WebSocket protocol, likewise. */
export async function asyncapi(): Promise<unknown> {
  return describe(async (app) => (await app.inject('/asyncapi.json')).json());
}

/** What `GET /metrics` answers of a process to which nothing has happened yet, likewise. */
export async function metrics(): Promise<string> {
  return describe(async (app) => (await app.inject('/metrics')).body);
}

async function describe<Result>(look: (app: Server) => Promise<Result>): Promise<Result> {
  const app = await createApp({
    config: readConfig({ SVC_AUTH_ENCRYPTION_KEY: randomBytes(32).toString('base64url') }),
    database: offlineDatabase<Tables>(),
    log: createLogger({ level: 'silent', service: 'assistant' }),
  });
  try {
    return await look(app);
  } finally {
    await app.close();
  }
}
