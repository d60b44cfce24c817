import { once } from 'node:events';
import { finished } from 'node:stream/promises';
import { STEMS_VERSION } from '@oselya/collector/internals';
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
  dimensions: number;
  signal: AbortSignal;
  logProgress: (line: string) => void;
};

/** Number of rows sent to the server at a time. */
const BATCH_SIZE = 500;
/** Number of rows between progress messages. */
const PROGRESS_INTERVAL_ROWS = 100_000;

/**
 * Copies generated listings into `property_listings`, and creates their rows for searches. Drops the non-unique
 * indexes first and rebuilds them at the end, which is faster for a large import.
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
    await client.query(BUILD_SETTINGS);
    await withoutIndexes(client, load, async () => {
      await copyRows(client, load);
      await fillIndex(client);
    });
    await client.query('vacuum analyze property_listings, listing_index, listing_facts');
  } finally {
    await client.end();
  }
}

/** Copies the listings, and their stems into a table beside them, because the trigger of each row is slow. */
async function copyRows(client: pg.Client, load: Load): Promise<void> {
  const stemsClient = new pg.Client({ connectionString: load.databaseUrl });
  await stemsClient.connect();
  try {
    await client.query(`
      alter table property_listings disable trigger user;
      create unlogged table bench_stems (id bigint generated always as identity, stems tsvector)`);
    const copies = [
      client.query(copyFrom(`copy property_listings (${COLUMNS.join(', ')}) from stdin`)),
      stemsClient.query(copyFrom('copy bench_stems (stems) from stdin')),
    ];
    for (const batch of createBatches(load)) {
      load.signal.throwIfAborted();
      for (const [index, copy] of copies.entries())
        if (!copy.write(batch[index])) await once(copy, 'drain');
    }
    await Promise.all(copies.map((copy) => finished(copy.end())));
  } finally {
    await stemsClient.end();
  }
}

/** Creates the rows of `listing_index` as its trigger would (migration 0038), with the copied stems. */
async function fillIndex(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ columns: string }>(
    `select string_agg(column_name, ', ' order by ordinal_position) as columns
     from information_schema.columns where table_name = 'listing_index_rows'`,
  );
  await client.query(`
    insert into listing_index (${rows[0]?.columns}, stems, stems_version)
    select listing.*, bench_stems.stems, ${STEMS_VERSION}
    from listing_index_rows as listing join bench_stems using (id) order by id;
    drop table bench_stems;
    alter table property_listings enable trigger user`);
}

/** Yields the rows of both tables for `copy … from`. */
function* createBatches({
  generator,
  count,
  dimensions,
  logProgress,
}: Load): Generator<[rows: string, stems: string], void, undefined> {
  const formatListing = createRowFormatter(generator, dimensions);
  for (let start = 0; start < count; start += BATCH_SIZE) {
    let rows = '';
    let stems = '';
    for (let index = start; index < Math.min(count, start + BATCH_SIZE); index += 1) {
      const listing = formatListing(index);
      rows += listing.row;
      stems += listing.stems;
    }
    yield [rows, stems];
    if (start > 0 && start % PROGRESS_INTERVAL_ROWS === 0) logProgress(`loaded ${start} listings`);
  }
}

/**
 * Settings for building the vector index: memory for the whole index, and no statement timeout. Parallel workers
 * share that memory through files, and were no faster than one process on two cores.
 */
const BUILD_SETTINGS =
  "set maintenance_work_mem = '4GB'; set max_parallel_maintenance_workers = 0; set statement_timeout = 0";

async function withoutIndexes(
  client: pg.Client,
  { logProgress }: Load,
  work: () => Promise<void>,
): Promise<void> {
  const { rows: indexes } = await client.query<{ name: string; definition: string }>(
    `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition
     from pg_index
     where indrelid = any('{property_listings, listing_index, listing_facts}'::regclass[]) and not indisunique`,
  );
  for (const { name } of indexes) await client.query(`drop index ${name}`);
  await work();
  for (const { name, definition } of indexes) {
    const startedAt = performance.now();
    await client.query(definition);
    logProgress(`${name}: built in ${Math.round((performance.now() - startedAt) / 1000)} s`);
  }
}
