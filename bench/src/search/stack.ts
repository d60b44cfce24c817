import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getMigrateOptions, refreshVocabulary, type Tables } from '@oselya/collector/internals';
import { connect, migrate } from '@oselya/db';
import { EMBEDDING_MODEL } from '../listings/rows.ts';
import { startProcess } from '../process/parent.ts';
import type { ApiServer } from './servers/api.ts';
import type { ModelServer } from './servers/model.ts';
import { loadListings } from '../listings/load.ts';
import type { Context } from '../suite.ts';

const API_MODULE = new URL('servers/api.ts', import.meta.url);
const MODEL_MODULE = new URL('servers/model.ts', import.meta.url);

/** Collector's API on a database of listings, with a model server; the end of the scope stops both servers. */
export type Stack = {
  url: string;
  api: ReturnType<typeof startProcess<ApiServer>>;
} & AsyncDisposable;

/** Starts the API and its model server, each in a separate process. */
export async function startStack(databaseUrl: string, signal: AbortSignal): Promise<Stack> {
  await using scope = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'oselya-bench-'));
  scope.defer(() => rm(folder, { recursive: true, force: true }));
  const model = scope.use(startProcess<ModelServer>(MODEL_MODULE, signal));
  const api = scope.use(startProcess<ApiServer>(API_MODULE, signal));
  const url = await api.call('start', {
    DATABASE_URL: databaseUrl,
    DATA_DIR: folder,
    EMBEDDING_DIMENSIONS: String(DIMENSIONS),
    COLLECTOR_FULLTEXT_PER_MINUTE: '0',
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: await model.call('start', { dimensions: DIMENSIONS }),
    MODEL_CHAT: EMBEDDING_MODEL,
    MODEL_EMBEDDING: EMBEDDING_MODEL,
    LOG_LEVEL: 'silent',
  });
  const runningScope = scope.move();
  return { url, api, [Symbol.asyncDispose]: () => runningScope.disposeAsync() };
}

/** Number of elements of a vector, the same as the collector's default. */
export const DIMENSIONS = 384;
const SEED = 20_260_101;

/**
 * Opens a database of generated listings; the end of the scope drops it unless `--keep` is set.
 * @throws Error if a kept database has a different number of listings.
 */
export async function openListings(
  count: number,
  { options, databases, signal, logProgress }: Context,
): Promise<{ url: string } & AsyncDisposable> {
  const database = options.keep
    ? { ...(await databases.keepDatabase(`oselya_bench_listings_${count}`)), ...nothingToDrop }
    : await databases.createDatabase();
  const existingCount = await prepare(database.url);
  if (existingCount !== count) {
    if (existingCount > 0) {
      throw new Error(
        `${database.url} has ${existingCount} listings instead of ${count}: drop this database`,
      );
    }
    logProgress(`loading ${count} listings`);
    const generator = { seed: SEED };
    const load = { databaseUrl: database.url, generator, count, dimensions: DIMENSIONS };
    await loadListings({ ...load, signal, logProgress });
    await countTerms(database.url, signal);
  }
  return database;
}

const nothingToDrop: AsyncDisposable = { [Symbol.asyncDispose]: () => Promise.resolve() };

/** Counts the terms of the listings, which hybrid searches weigh words by. */
async function countTerms(databaseUrl: string, signal: AbortSignal): Promise<void> {
  const database = await connect<Tables>({ url: databaseUrl });
  try {
    await refreshVocabulary(database.db, signal, { isForced: true });
  } finally {
    await database.close();
  }
}

/** Migrates the database and returns the number of its listings. */
async function prepare(databaseUrl: string): Promise<number> {
  const database = await connect({ url: databaseUrl });
  try {
    await migrate(database, getMigrateOptions({ EMBEDDING_DIMENSIONS: DIMENSIONS }));
    const { rows } = await database.pool.query<{ n: number }>(
      'select count(*)::integer as n from property_listings',
    );
    return rows[0]?.n ?? 0;
  } finally {
    await database.close();
  }
}
