import { claimJobs, createRawCleanup, type Tables } from '@oselya/collector/internals';
import { connect } from '@oselya/db';
import { Counter } from 'prom-client';
import type { RemoteProcess } from '../process/parent.ts';
import { KINDS, type Kind } from '../search/questions.ts';
import { percentiles, median } from '../statistics.ts';
import type { Outcome } from './load.ts';
import type { CollectorProcess, ProcessResources } from './servers/collector.ts';

/** One look at everything; the times are of what was answered since the look before. */
export type Sample = ProcessResources & {
  /** Since the end of the warm-up. */
  seconds: number;
  claimMs: number;
  accepted: number;
  ingestP95: number;
  searchP95: Record<Kind, number>;
  tables: Record<Table, TableFigures>;
};

/** @param outcome What the load came to since the sample before. */
export async function takeSample(
  seconds: number,
  {
    outcome,
    collector,
    monitor,
  }: { outcome: Outcome; collector: RemoteProcess<CollectorProcess>; monitor: DatabaseMonitor },
): Promise<Sample> {
  const claimMs = await monitor.claimMs();
  const tables = await monitor.tables();
  const holdings = await collector.call('holdings');
  const searchP95 = Object.fromEntries(KINDS.map((kind) => [kind, p95(outcome.searchMs[kind])]));
  return {
    seconds,
    claimMs,
    accepted: outcome.accepted,
    ingestP95: p95(outcome.ingestMs),
    // Each of the kinds is among the entries.
    searchP95: searchP95 as Record<Kind, number>,
    ...holdings,
    tables,
  };
}

/** 0 where nothing was asked, which only a very short sample has. */
function p95(latencies: readonly number[]): number {
  return latencies.length === 0 ? 0 : (percentiles(latencies, [0.95])[0] ?? 0);
}

/** The tables that grow or change with every payload. */
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

/** Size of a table in MiB, and its rows by the server's statistics. */
export type TableFigures = { heapMiB: number; indexesMiB: number; live: number; dead: number };

/** Number of payloads by status. */
export type Counts = { stored: number; left: number; completed: number; outdated: number };

/** Findings of one sample of the database. */
export type DatabaseMonitor = AsyncDisposable & {
  /**
   * How long a worker's claim takes, the median of some, in milliseconds, where a source has a backlog. Neither
   * that nor any claim stays.
   */
  claimMs(): Promise<number>;
  tables(): Promise<Record<Table, TableFigures>>;
  counts(): Promise<Counts>;
  /** Runs the collector's clean-up of completed payloads older than a number of seconds; returns the number deleted. */
  deleteOldPayloads(seconds: number): Promise<number>;
};

const DAY_SECONDS = 86_400;
const CLAIMS = 5;
const BACKLOG = 100;

/** Rolls a transaction back. */
class RollbackError extends Error {}

const backlog = Array.from({ length: BACKLOG }, (_, nth) => ({
  source_slug: 'backlog',
  external_id: String(nth),
  payload: '{}',
  content_hash: String(nth),
}));

/** Connects to the database of a run; leaving the scope that uses it ends the connection. */
export async function openDatabaseMonitor(url: string): Promise<DatabaseMonitor> {
  const database = await connect<Tables>({ url, maxConnections: 1 });
  const { db, pool } = database;
  // A worker claims so often that its connections come to keep one plan. Whether one that claims now and then keeps it,
  // or has each claim planned anew, hangs on what the table was like at its first claims.
  await pool.query('set plan_cache_mode = force_generic_plan');
  const clean = createRawCleanup({
    db,
    metrics: {
      rawDeleted: new Counter({ name: 'removed', help: 'Removed payloads', registers: [] }),
    },
  });

  return {
    async claimMs() {
      const times: number[] = [];
      const undone = db.transaction().execute(async (trx) => {
        await trx.insertInto('sources').values({ slug: 'backlog' }).execute();
        await trx.insertInto('raw_data').values(backlog).execute();
        while (times.length < CLAIMS) {
          const begun = performance.now();
          const claimed = await claimJobs(trx, { worker: 'bench', leaseMs: 60_000, count: 1 });
          times.push(performance.now() - begun);
          if (claimed.length !== 1) throw new Error('A claim found nothing of a backlog');
        }
        throw new RollbackError();
      });
      await undone.catch((error: unknown) => {
        if (!(error instanceof RollbackError)) throw error;
      });
      return median(times);
    },

    async tables() {
      const { rows } = await pool.query<TableFigures & { name: Table }>(
        `select relname as name, n_live_tup as live, n_dead_tup as dead,
          (pg_table_size(relid) / 1048576.0)::float8 as "heapMiB",
          (pg_indexes_size(relid) / 1048576.0)::float8 as "indexesMiB"
        from pg_stat_user_tables where relname = any($1)`,
        [TABLES],
      );
      const figures = rows.map(({ name, ...rest }) => [name, rest] as const);
      // Each of the tables is there once the collector has started.
      return Object.fromEntries(figures) as Record<Table, TableFigures>;
    },

    async counts() {
      const { rows } = await pool.query<Counts>(
        `select count(*) as stored,
          count(*) filter (where raw.status in ('pending', 'processing')) as left,
          count(*) filter (where raw.status = 'completed') as completed,
          (select count(*) from listing_payloads as listing
            where raw_id < (select max(id) from raw_data as newer
              where newer.source_slug = listing.source_slug
                and newer.external_id = listing.external_id)) as outdated
        from raw_data as raw`,
      );
      const [counts] = rows;
      if (counts === undefined) throw new Error('An aggregate gave no row');
      return counts;
    },

    deleteOldPayloads: (seconds) => clean({ olderThanDays: seconds / DAY_SECONDS }),

    [Symbol.asyncDispose]: () => database.close(),
  };
}
