import { isPrepared, toVector, type Database } from '@oselya/db';
import { Kysely, PostgresDialect } from 'kysely';
import type pg from 'pg';
import type { Tables } from '../../src/tables.ts';
import { listCandidates, storeEmbeddings } from '../../src/embeddings/repository.ts';
import { findEarlier, insertRaws } from '../../src/ingest/repository.ts';
import { givePositions, listChanges } from '../../src/listing/changes/repository.ts';
import { claimFresh } from '../../src/operations/archive/claim-fresh.sql.ts';
import { claimOldest } from '../../src/operations/archive/claims.sql.ts';
import { removeSome } from '../../src/operations/raw/cleanup.sql.ts';
import { listRaw } from '../../src/operations/raw/list.sql.ts';
import { claimAlone, takeDrain } from '../../src/queue/claim-alone.sql.ts';
import { claimJobs } from '../../src/queue/claim.sql.ts';
import { finishJobs } from '../../src/queue/finish.sql.ts';
import { queueReads } from '../../src/queue/figures.sql.ts';
import { renewLeases, rescueJobs } from '../../src/queue/leases.sql.ts';
import { putBackSome } from '../../src/queue/put-back.sql.ts';
import { release, releaseMissed } from '../../src/queue/release.sql.ts';
import { findDuplicates } from '../../src/search/fold.ts';
import { findNearest } from '../../src/search/nearest.sql.ts';
import { rankMatches } from '../../src/search/ranking.sql.ts';
import { listMatching, loadListings } from '../../src/search/repository.ts';
import { fillChanges, fillChecks, fillListings } from './listings.sql.ts';
import { type ExplainedNode, planText } from './plan-text.ts';
import { fillQueue } from './queue.sql.ts';

export const DIMENSIONS = 8;

type Db = Kysely<Tables>;
type Explained = { 'QUERY PLAN': [{ Plan: ExplainedNode }] };

const vector = toVector(Array.from({ length: DIMENSIONS }, (_, axis) => Math.cos(axis)));
const listing = { sourceSlug: 'queue-7', externalId: 'plan' };
/** A page after the first: of the listings up to the one that was the newest then. */
const words =
  (text: string, filters: object = {}) =>
  (db: Db) =>
    rankMatches(db, { text, filters, bound: 1000, newestId: 20_000 });
const near =
  (filters: object = {}, others: object = {}) =>
  (db: Db) =>
    findNearest(db, { vector, embeddingModel: 'plan', filters, limit: 20, ...others });

/** A place in the list of what has ended, some weeks back. */
const LONG_AGO = { at: new Date(Date.now() - 14 * 24 * 3_600_000).toISOString(), id: 1 };
const inEnded = { at: Date.parse(LONG_AGO.at) * 1000, id: LONG_AGO.id };

/** The tables that become large. */
const READS_MUCH = /property_listings|listing_(checks|changes)|raw_data/;

const retry = (source: string | undefined) => (db: Db) =>
  putBackSome(db, { status: 'failed', source, endedBefore: new Date().toISOString(), limit: 1000 });
const listEnded = (source: string | undefined) => (db: Db) =>
  listRaw(db, { status: 'invalid', source, after: inEnded, limit: 101 });
const changes = (sources: readonly string[] | null) => (db: Db) =>
  listChanges(db, { after: 100, upTo: 15_000, sources, limit: 101 });

/**
 * The main queries of search, of the queue with its upkeep and figures, of what admins do with payloads, of the feed of
 * changes, of the archive check and of the backfill of embeddings, by the name of the file that has their plan. Those
 * of the search for duplicates are looked at where their listings are made: test/duplicates/probes.db.test.ts.
 */
const QUERIES: Readonly<Record<string, (db: Db) => Promise<unknown>>> = {
  'words-broad': words('квартира'),
  'words-rare': words('назва77'),
  'words-broad-in-a-city': words('квартира', { city: 'Київ', deal_type: 'sale' }),
  'words-broad-in-a-range': words('квартира', {
    price_min: 20_000,
    price_max: 22_000,
    rooms_min: 2,
  }),
  'words-with-archived': words('квартира мансарда', { include_archived: true }),
  'words-first-page': (db) => rankMatches(db, { text: 'квартира', filters: {}, bound: 1000 }),
  near: near(),
  'near-half': near({ deal_type: 'sale' }),
  'near-in-a-small-city': near({ city: 'Луцьк' }),
  'near-of-a-source': near({ source_slug: 'source-3', deal_type: 'rent' }),
  'near-up-to': near({ deal_type: 'sale' }, { newestId: 19_000 }),
  'near-of-any-model': near({}, { embeddingModel: null }),
  listings: (db) => loadListings(db, [1, 200, 3000]),
  matches: (db) =>
    listMatching(db, {
      ids: Array.from({ length: 100 }, (_, nth) => 1 + nth * 200),
      text: 'квартира',
      filters: { city: 'Київ', price_max: 60_000 },
    }),
  claim: (db) =>
    claimJobs(db, {
      worker: 'plan',
      leaseMs: 60_000,
      count: 4,
      lastSource: 'queue-7',
      aloneFrom: 2,
    }),
  'claim-alone': (db) => claimAlone(db, { worker: 'plan', leaseMs: 60_000, aloneFrom: 2 }),
  drain: (db) => takeDrain(db, { worker: 'plan', leaseMs: 60_000, aloneFrom: 2 }),
  finish: (db) =>
    finishJobs(db, [
      {
        job: { ...listing, rawId: 1, attempt: 1, contentHash: '', requestId: null },
        result: { status: 'completed', error: null, stages: [], listingId: null },
      },
    ]),
  renew: (db) => {
    const usage = { calls: 0, input_tokens: 0, output_tokens: 0 };
    return renewLeases(db, [{ rawId: 1, attempt: 1, stages: [], usage }], 60_000);
  },
  rescue: (db) => rescueJobs(db, 3),
  release: (db) => release(db, [listing]),
  'release-missed': (db) => releaseMissed(db),
  figures: (db) => queueReads(db).standing(),
  'count-ended': (db) => queueReads(db).countOn('completed', LONG_AGO),
  store: (db) =>
    insertRaws(db, [
      { source_slug: 'queue-7', external_id: 'plan', payload: '{}', content_hash: '' },
    ]),
  earlier: (db) => {
    const raw = { source_slug: 'queue-6', external_id: 'ended 6', payload: '{}', content_hash: '' };
    return findEarlier(db, new Map([[0, { ...raw, idempotency_key: 'key-6' }]]));
  },
  retry: retry(undefined),
  'retry-of-source': retry('queue-100'),
  'raw-list': listEnded(undefined),
  'raw-list-of-source': listEnded('queue-21'),
  // Nothing is so old: what is looked at stays for the others.
  cleanup: (db) => removeSome(db, { cutoff: '2000-01-01', after: 0, limit: 1000 }),
  changes: changes(null),
  'changes-of-sources': changes(['source-3', 'source-4']),
  positions: (db) => givePositions(db, 1000),
  'backfill-list': (db) => listCandidates(db, { after: 5000, limit: 100 }),
  'backfill-store': (db) =>
    storeEmbeddings(
      db,
      [11, 12].map((listingId) => ({ listingId, hash: '', vector: [], model: 'plan' })),
    ),
  duplicates: (db) => findDuplicates(db, [{ id: 3, group: 3 }], {}),
  'archive-fresh': (db) => claimFresh(db, { limit: 1000, notWithinHours: 24 }, 5000),
  'archive-oldest': (db) => claimOldest(db, { limit: 100, notWithinHours: 1 }),
};

/** Runs each of the queries on many listings and payloads, and gives the plans of the statements that it consists of. */
export async function collectPlans(database: Database<Tables>): Promise<Map<string, string>> {
  const { pool } = database;
  await fillListings(pool, DIMENSIONS);
  await fillChecks(pool);
  await fillChanges(pool);
  await fillQueue(pool);
  const seen: { sql: string; parameters: readonly unknown[] }[] = [];
  const watched = new Kysely<Tables>({
    dialect: new PostgresDialect({ pool }),
    log: ({ query }) => void seen.push(query),
  });
  const plans = new Map<string, string>();
  for (const [name, run] of Object.entries(QUERIES)) {
    seen.length = 0;
    await run(watched);
    const statements = seen.filter(({ sql }) => READS_MUCH.test(sql) && !/^explain/i.test(sql));
    const texts = [];
    for (const { sql, parameters } of statements) {
      texts.push(planText(await explain(pool, sql, parameters)));
    }
    plans.set(name, texts.join('\n'));
  }
  return plans;
}

/**
 * The plan of a statement under the settings that docs/operations.md recommends, whatever the server has: of one that
 * is prepared the plan for all values, which is what connections keep.
 */
async function explain(
  pool: pg.Pool,
  text: string,
  parameters: readonly unknown[],
): Promise<ExplainedNode> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    await client.query(`set local random_page_cost = 1.1; set local effective_cache_size = '8GB';
      set local jit = off; set local max_parallel_workers_per_gather = 2`);
    const { rows } = isPrepared(text)
      ? await client.query<Explained>(`explain (format json, generic_plan) ${text}`)
      : await client.query<Explained>(`explain (format json) ${text}`, [...parameters]);
    await client.query('commit');
    const plan = rows[0]?.['QUERY PLAN'][0].Plan;
    if (plan === undefined) throw new Error(`There is no plan of ${text}`);
    return plan;
  } finally {
    client.release();
  }
}
