import { getMigrateOptions } from '@oselya/collector/internals';
import { connect, migrate } from '@oselya/db';
import { loadListings } from '../listings/load.ts';
import type { Context } from '../suite.ts';

/** Numbers of a vector, as many as the collector has by default. */
export const DIMENSIONS = 384;
const SEED = 20_260_101;

/** A database with generated listings; the end of its scope drops it unless it is kept. */
export async function openListings(
  count: number,
  { options, databases, signal, logProgress }: Context,
): Promise<{ url: string } & AsyncDisposable> {
  const database = options.keep
    ? { ...(await databases.keepDatabase(`oselya_bench_listings_${count}`)), ...nothingToDrop }
    : await databases.createDatabase();
  const there = await prepare(database.url);
  if (there !== count) {
    if (there > 0) throw new Error(`${database.url} has ${there} listings, not ${count}`);
    logProgress(`${count} listings are loaded`);
    const generator = { seed: SEED };
    const load = { databaseUrl: database.url, generator, count, dimensions: DIMENSIONS };
    await loadListings({ ...load, signal, logProgress });
  }
  return database;
}

const nothingToDrop: AsyncDisposable = { [Symbol.asyncDispose]: () => Promise.resolve() };

/** Brings the tables up to date, and counts the listings. */
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
