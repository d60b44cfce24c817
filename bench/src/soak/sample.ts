import { claimJobs, createRawCleanup, type Tables } from '@oselya/collector/internals';
import { connect } from '@oselya/db';
import { Counter } from 'prom-client';
import type { RemoteProcess } from '../process/parent.ts';
import { RANKED_KINDS, type RankedKind } from '../search/questions.ts';
import { percentiles, median } from '../statistics.ts';
import type { Outcome } from './load.ts';
import type { CollectorProcess, ProcessResources } from './servers/collector.ts';

/** Measurements at one time, with the latencies and accepted payloads since the previous sample. */
export type Sample = ProcessResources & {
  /** Time since the end of the warm-up. */
  seconds: number;
  claimMs: number;
  accepted: number;
  ingestP95: number;
  searchP95: Record<RankedKind, number>;
  tables: Record<Table, TableStatistics>;
};

/**
 * Takes a sample.
 * @param outcome Results of the load since the previous sample.
 */
export async function takeSample(
  seconds: number,
  {
    outcome,
    collector,
    monitor,
  }: { outcome: Outcome; collector: RemoteProcess<CollectorProcess>; monitor: DatabaseMonitor },
): Promise<Sample> {
  const claimMs = await monitor.measureClaimMs();
  const tables = await monitor.tables();
  const resources = await collector.call('resources');
  const searchP95 = Object.fromEntries(
    RANKED_KINDS.map((kind) => [kind, computeP95(outcome.searchMs[kind])]),
  );
  return {
    seconds,
    claimMs,
    accepted: outcome.accepted,
    ingestP95: computeP95(outcome.ingestMs),
    // The record is complete, because the entries contain every kind of search.
    searchP95: searchP95 as Record<RankedKind, number>,
    ...resources,
    tables,
  };
}

/** Returns the 95th percentile; 0 if there are no values, as in a very short sample. */
function computeP95(latencies: readonly number[]): number {
  return latencies.length === 0 ? 0 : (percentiles(latencies, [0.95])[0] ?? 0);
}

/** Tables that change under the load. */
export const TABLES = [
  'raw_data',
  'property_listings',
  'listing_payloads',
  'listing_snapshots',
  'listing_enrichments',
  'listing_images',
  'images',
  'duplicate_marks',
  'duplicate_pairs',
  'rate_limits',
] as const;
export type Table = (typeof TABLES)[number];

/** Table size, and row counts from PostgreSQL's statistics. */
export type TableStatistics = { heapMiB: number; indexesMiB: number; live: number; dead: number };

export type Counts = {
  /** Number of stored raw records. */
  storedCount: number;
  /** Number of raw records that are pending or being processed. */
  openCount: number;
  /** Number of raw records with the status `completed`. */
  completedCount: number;
  /** Number of listings that do not reflect their newest payload. */
  outdatedCount: number;
};

export type DatabaseMonitor = AsyncDisposable & {
  /**
   * Returns the median duration of a claim during a source's backlog, in milliseconds. Creates the backlog and claims
   * jobs in a transaction that is rolled back.
   */
  measureClaimMs(): Promise<number>;
  tables(): Promise<Record<Table, TableStatistics>>;
  counts(): Promise<Counts>;
  /** Deletes completed raw records older than the given number of seconds. Returns the number of deleted records. */
  deleteOldPayloads(seconds: number): Promise<number>;
};

const DAY_SECONDS = 86_400;
const CLAIMS = 5;
const BACKLOG = 100;

/** Thrown to roll back a transaction. */
class RollbackError extends Error {}

const backlog = Array.from({ length: BACKLOG }, (_, index) => ({
  source_slug: 'backlog',
  external_id: String(index),
  payload: '{}',
  content_hash: String(index),
}));

/** Connects to the database of a run; the end of the scope closes the connection. */
export async function openDatabaseMonitor(url: string): Promise<DatabaseMonitor> {
  const database = await connect<Tables>({ url, maxConnections: 1 });
  const { db, pool } = database;
  // A worker's connections soon use a generic plan. The plan of this rarely used connection would depend
  // on the size of the table at its first claims.
  await pool.query('set plan_cache_mode = force_generic_plan');
  const clean = createRawCleanup({
    db,
    metrics: {
      rawDeleted: new Counter({ name: 'removed', help: 'Removed payloads', registers: [] }),
    },
  });

  return {
    async measureClaimMs() {
      const times: number[] = [];
      const rollback = db.transaction().execute(async (trx) => {
        await trx.insertInto('sources').values({ slug: 'backlog' }).execute();
        await trx.insertInto('raw_data').values(backlog).execute();
        while (times.length < CLAIMS) {
          const startedAt = performance.now();
          const claimedJobs = await claimJobs(trx, { worker: 'bench', leaseMs: 60_000, count: 1 });
          times.push(performance.now() - startedAt);
          if (claimedJobs.length !== 1) throw new Error('A claim found no job of the backlog');
        }
        throw new RollbackError();
      });
      await rollback.catch((error: unknown) => {
        if (!(error instanceof RollbackError)) throw error;
      });
      return median(times);
    },

    async tables() {
      const { rows } = await pool.query<TableStatistics & { name: Table }>(
        `select relname as name, n_live_tup as live, n_dead_tup as dead,
          (pg_table_size(relid) / 1048576.0)::float8 as "heapMiB",
          (pg_indexes_size(relid) / 1048576.0)::float8 as "indexesMiB"
        from pg_stat_user_tables where relname = any($1)`,
        [TABLES],
      );
      const entries = rows.map(({ name, ...table }) => [name, table] as const);
      // All tables exist after the collector's startup, so the record is complete.
      return Object.fromEntries(entries) as Record<Table, TableStatistics>;
    },

    async counts() {
      const { rows } = await pool.query<Counts>(
        `select count(*) as "storedCount",
          count(*) filter (where raw.status in ('pending', 'processing')) as "openCount",
          count(*) filter (where raw.status = 'completed') as "completedCount",
          (select count(*) from listing_payloads as listing
            where raw_id < (select max(id) from raw_data as newer
              where newer.source_slug = listing.source_slug
                and newer.external_id = listing.external_id)) as "outdatedCount"
        from raw_data as raw`,
      );
      const [counts] = rows;
      if (counts === undefined) throw new Error('An aggregate query returned no row');
      return counts;
    },

    deleteOldPayloads: (seconds) => clean({ olderThanDays: seconds / DAY_SECONDS }),

    [Symbol.asyncDispose]: () => database.close(),
  };
}
