import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { type Generator as Settings, SOURCES } from './listing.ts';
import { COLUMNS, createRowFormatter } from './rows.ts';

export type Load = {
  /** URL of a database with the collector's tables. */
  databaseUrl: string;
  generator: Settings;
  /** Total number of listings. */
  count: number;
  /** Number of listings that already exist; 0 by default. */
  existingCount?: number;
  dimensions: number;
  signal: AbortSignal;
  logProgress: (line: string) => void;
};

/** Number of rows sent to the server at a time. */
const BATCH_SIZE = 500;
/** Number of rows between progress messages. */
const PROGRESS_INTERVAL_ROWS = 100_000;

/**
 * Copies generated listings into `property_listings`. Drops the non-unique indexes first and rebuilds them at the end,
 * which is faster for a large import.
 */
export async function loadListings(load: Load): Promise<void> {
  const client = new pg.Client({ connectionString: load.databaseUrl });
  await client.connect();
  try {
    await client.query(
      `insert into sources (slug) select 'source-' || lpad(n::text, 2, '0')
       from generate_series(0, $1::integer - 1) as n on conflict do nothing`,
      [SOURCES],
    );
    await withoutIndexes(client, load, () => copyRows(client, load));
    await client.query('vacuum analyze property_listings');
  } finally {
    await client.end();
  }
}

async function copyRows(client: pg.Client, load: Load): Promise<void> {
  const copy = copyFrom(`copy property_listings (${COLUMNS.join(', ')}) from stdin`);
  await pipeline(Readable.from(batches(load)), client.query(copy), { signal: load.signal });
}

function* batches({
  generator,
  count,
  existingCount = 0,
  dimensions,
  logProgress,
}: Load): Generator<string, void, undefined> {
  const formatRow = createRowFormatter(generator, dimensions);
  for (let start = existingCount; start < count; start += BATCH_SIZE) {
    let rows = '';
    for (let index = start; index < Math.min(count, start + BATCH_SIZE); index += 1)
      rows += formatRow(index);
    yield rows;
    if (start > existingCount && start % PROGRESS_INTERVAL_ROWS === 0)
      logProgress(`loaded ${start} listings`);
  }
}

/** Settings for building the vector index: memory for the whole index, parallel workers, and no statement timeout. */
const BUILD_SETTINGS =
  "set maintenance_work_mem = '4GB'; set max_parallel_maintenance_workers = 2; set statement_timeout = 0";

async function withoutIndexes(
  client: pg.Client,
  { logProgress }: Load,
  work: () => Promise<void>,
): Promise<void> {
  const { rows: indexes } = await client.query<{ name: string; definition: string }>(
    `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition
     from pg_index where indrelid = 'property_listings'::regclass and not indisunique`,
  );
  for (const { name } of indexes) await client.query(`drop index ${name}`);
  await work();
  await client.query(BUILD_SETTINGS);
  for (const { name, definition } of indexes) {
    const startedAt = performance.now();
    await client.query(definition);
    logProgress(`${name}: built in ${Math.round((performance.now() - startedAt) / 1000)} s`);
  }
}
