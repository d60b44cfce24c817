import { setImmediate } from 'node:timers/promises';
import { isDatabaseOutage, isLeaseFree, leaseExpiry } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import { Gauge, type Registry } from 'prom-client';
import { Type } from 'typebox';
import { createGaugeCollector, type Metrics } from '../metrics.ts';
import { repeat } from '../async/wait.ts';
import type { Conversion } from '../money/conversion.ts';
import { choice, nullable } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import {
  type ComparedListing,
  findCandidates,
  loadComparedListings,
  readComparedRates,
} from './candidates.ts';
import {
  compareListings,
  type Comparison,
  MIN_DUPLICATE_SCORE,
  REASONS,
  SAME_BY_VERDICT,
} from './compare.ts';
import { lockGroupsForReading, lockGroupsForWriting, updateGroups } from './groups.ts';
import { loadVerdicts, type Verdict } from './verdicts.ts';

const MAX_CLAIM_SIZE = 16;

const SEARCH_INTERVAL_MS = 1000;

/** Initial lease of a claim. It doubles with each failed attempt. */
const LEASE_MS = 60_000;
const MAX_LEASE_MS = 3_600_000;

/** Minimum age of a change before its search, because a job updates its listing several times within seconds. */
const MIN_CHANGE_AGE_MS = 3000;

/** Maximum number of duplicates that a search selects from the candidates: the likeliest. */
const MAX_NEW_PAIRS = 20;

/** Maximum number of known pairs to compare again. At this number, a lost pair causes all partners to be marked. */
const MAX_KNOWN_PAIRS = 200;

/** Maximum number of marks that the metric counts, because a count of all marks is slow. */
const MAX_COUNTED_MARKS = 100_000;

/** Likely duplicates of a listing in API responses. */
export const duplicatesSchema = Type.Array(
  Type.Object({
    listing_id: Type.Integer(),
    source_slug: Type.String(),
    external_id: Type.String(),
    url: nullable(Type.String()),
    price: nullable(Type.Number()),
    currency: nullable(Type.String()),
    score: Type.Number({
      minimum: MIN_DUPLICATE_SCORE,
      maximum: 1,
      description:
        'Likelihood that both listings are the same property: the sum of the parts, at most 1.',
    }),
    reasons: Type.Array(
      Type.Object({
        reason: choice(REASONS),
        part: Type.Number({
          description: 'Part of the score; negative for evidence against a duplicate.',
        }),
        detail: Type.String({ description: 'The finding, as text.' }),
      }),
    ),
  }),
  {
    description:
      'Other listings that are likely the same property, likeliest first. They have a different source or ID and the ' +
      'same kind of offer, and are not archived. The search runs some seconds after a change.',
    examples: [
      [
        {
          listing_id: 118,
          source_slug: 'misto',
          external_id: 'a-77',
          url: 'https://misto.example/a-77',
          price: 88_500,
          currency: 'USD',
          score: 0.85,
          reasons: [
            { reason: 'place', part: 0.2, detail: 'same building' },
            { reason: 'area', part: 0.2, detail: 'both 54.3 m²' },
            { reason: 'text', part: 0.45, detail: '100 % of the text' },
          ],
        },
      ],
    ],
  },
);

/** Returns at most `limit` likely duplicates of a listing, likeliest first, without archived listings. */
export function listDuplicates(db: Kysely<Tables>, listingId: number, limit: number) {
  return db
    .selectFrom('duplicate_pairs as pair')
    .innerJoin('property_listings as other', (join) =>
      join.on(
        'other.id',
        '=',
        sql<number>`case pair.low_id when ${listingId} then pair.high_id else pair.low_id end`,
      ),
    )
    .select(['other.id as listing_id', 'other.source_slug', 'other.external_id', 'other.url'])
    .select(['other.price', 'other.currency', 'pair.score', 'pair.reasons'])
    .where((eb) => eb.or([eb('pair.low_id', '=', listingId), eb('pair.high_id', '=', listingId)]))
    .where('other.archived_at', 'is', null)
    .orderBy('pair.score', 'desc')
    .orderBy('other.id')
    .limit(limit)
    .execute();
}

/**
 * Starts the background search for duplicates of changed listings, which database triggers mark. Several processes may
 * run it. A failed search is retried after one minute, with backoff up to one hour, and affects no job.
 * @param deps.minAgeMs Minimum age of a change, in milliseconds.
 */
export function startDuplicateSearch(deps: {
  db: Kysely<Tables>;
  log: Logger;
  metrics: { duplicateLooks: Pick<Metrics['duplicateLooks'], 'inc'> };
  intervalMs?: number;
  minAgeMs?: number;
}): { close: () => Promise<void> } {
  const { db, log, metrics, intervalMs = SEARCH_INTERVAL_MS, minAgeMs = MIN_CHANGE_AGE_MS } = deps;
  const closeController = new AbortController();
  const { signal } = closeController;

  async function searchAll(): Promise<void> {
    for (;;) {
      const claims = await claimMarks(db, { minAgeMs });
      for (const claim of claims) {
        // The embedded database runs in this process, so yield to requests.
        await setImmediate();
        if (signal.aborted) return;
        metrics.duplicateLooks.inc({ outcome: await searchListing(claim) });
      }
      if (claims.length === 0) return;
    }
  }

  async function searchListing(claim: MarkedListing): Promise<'done' | 'failed'> {
    try {
      await updatePairs(db, claim);
      return 'done';
    } catch (error) {
      if (isDatabaseOutage(error)) throw error;
      const { listingId: listing_id } = claim;
      log.warn({ err: error, listing_id }, 'a search for duplicates failed and will be repeated');
      return 'failed';
    }
  }

  const onError = (error: unknown) => {
    if (!signal.aborted) log.warn({ err: error }, 'the search for duplicates failed for now');
  };
  const searchLoop = repeat(intervalMs, searchAll, { signal, onError });
  return {
    async close() {
      closeController.abort();
      await searchLoop;
    },
  };
}

type MarkedListing = { listingId: number; marks: number[] };

/**
 * Claims changed listings, latest first. A mark can be claimed again after its lease expires.
 * @param options.minAgeMs Minimum age of a change, in milliseconds.
 */
export async function claimMarks(
  db: Kysely<Tables>,
  options: { minAgeMs: number; limit?: number; leaseMs?: number },
): Promise<MarkedListing[]> {
  const { minAgeMs, limit = MAX_CLAIM_SIZE, leaseMs = LEASE_MS } = options;
  const durationMs = sql<number>`least(${leaseMs} * 2 ^ least(attempts, 30), ${MAX_LEASE_MS})`;
  const { rows } = await sql<MarkedListing>`
    with claimed as (
      update duplicate_marks set attempts = attempts + 1,
        claimed_until = ${leaseExpiry(durationMs)}
      where id in (
        select id from duplicate_marks
        where marked_at <= now() - ${minAgeMs} * interval '1 millisecond'
          and ${isLeaseFree('claimed_until')}
        order by id desc limit ${limit} for update skip locked)
      returning id, listing_id)
    select listing_id as "listingId", jsonb_agg(id) as marks
    from claimed group by listing_id order by max(id) desc`.execute(db);
  return rows;
}

/**
 * Searches for the duplicates of a listing, and updates its pairs and groups.
 *
 * Most listings have no duplicates: their searches only delete marks and may run concurrently. Otherwise the listings
 * are compared again under the write lock, so that concurrent searches for both listings of a pair see current data.
 * @throws Database errors, including lock timeouts. In this case, nothing changes and the marks stay.
 */
export async function updatePairs(
  db: Kysely<Tables>,
  { listingId: id, marks }: MarkedListing,
): Promise<void> {
  const rates = await readComparedRates(db);
  const duplicateIds = await db.transaction().execute(async (trx) => {
    await lockGroupsForReading(trx);
    const listing = (await loadComparedListings(trx, [id], rates)).get(id);
    const duplicates = listing === undefined ? [] : await findDuplicates(trx, listing, rates);
    const isKnown = (await hasGroupOrPair(trx, id)) || (await loadVerdicts(trx, id)).size > 0;
    if (duplicates.length > 0 || isKnown) return duplicates;
    await removeMarks(trx, marks);
    return undefined;
  });
  if (duplicateIds === undefined) return;

  await db.transaction().execute(async (trx) => {
    await lockGroupsForWriting(trx);
    const partnerIds = await listPartners(trx, id, MAX_KNOWN_PAIRS);
    const verdicts = await loadVerdicts(trx, id);
    const comparedIds = new Set([id, ...duplicateIds, ...partnerIds, ...verdicts.keys()]);
    const listings = await loadComparedListings(trx, [...comparedIds], rates);
    const listing = listings.get(id);
    listings.delete(id);
    const pairs =
      listing === undefined
        ? new Map<number, Comparison>()
        : scoreDuplicates(listing, listings, verdicts);
    const removedIds = partnerIds.filter((partnerId) => !pairs.has(partnerId));
    await storePairs(trx, id, { pairs, removedIds });
    await updateGroups(trx, [id, ...pairs.keys(), ...removedIds]);
    if (removedIds.length > 0 && partnerIds.length === MAX_KNOWN_PAIRS) await markPartners(trx, id);
    await removeMarks(trx, marks);
  });
}

/** Returns the IDs of the likeliest duplicates among all candidates; none for an archived listing. */
async function findDuplicates(
  trx: Kysely<Tables>,
  listing: ComparedListing,
  rates: Conversion,
): Promise<number[]> {
  if (listing.archived_at !== null) return [];
  const candidates = await loadComparedListings(trx, await findCandidates(trx, listing), rates);
  return [...scoreDuplicates(listing, candidates, new Map())]
    .toSorted(([idA, a], [idB, b]) => b.score - a.score || idA - idB)
    .slice(0, MAX_NEW_PAIRS)
    .map(([id]) => id);
}

/** Returns the likely duplicates with their scores. Verdicts take precedence. Archived listings have no duplicates. */
function scoreDuplicates(
  listing: ComparedListing,
  candidates: ReadonlyMap<number, ComparedListing>,
  verdicts: ReadonlyMap<number, Verdict>,
): Map<number, Comparison> {
  const pairs = new Map<number, Comparison>();
  if (listing.archived_at !== null) return pairs;
  for (const [id, candidate] of candidates) {
    const verdict = verdicts.get(id);
    if (candidate.archived_at !== null || verdict === 'different') continue;
    const comparison = verdict === 'same' ? SAME_BY_VERDICT : compareListings(listing, candidate);
    if (comparison !== undefined && comparison.score >= MIN_DUPLICATE_SCORE) {
      pairs.set(id, comparison);
    }
  }
  return pairs;
}

async function hasGroupOrPair(trx: Kysely<Tables>, listingId: number): Promise<boolean> {
  const row = await trx
    .selectFrom('property_listings')
    .select('duplicate_group')
    .where('id', '=', listingId)
    .executeTakeFirst();
  return row?.duplicate_group != null || (await listPartners(trx, listingId, 1)).length > 0;
}

const selectPartners = (listingId: number) => sql<{ id: number }>`
  select high_id as id from duplicate_pairs where low_id = ${listingId}
  union all
  select low_id from duplicate_pairs where high_id = ${listingId}`;

async function listPartners(
  trx: Kysely<Tables>,
  listingId: number,
  limit: number,
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    ${selectPartners(listingId)} limit ${limit}`.execute(trx);
  return rows.map(({ id }) => id);
}

async function markPartners(trx: Kysely<Tables>, listingId: number): Promise<void> {
  await sql`insert into duplicate_marks (listing_id) ${selectPartners(listingId)}`.execute(trx);
}

async function removeMarks(trx: Kysely<Tables>, marks: readonly number[]): Promise<void> {
  await trx.deleteFrom('duplicate_marks').where('id', 'in', marks).execute();
}

async function storePairs(
  trx: Kysely<Tables>,
  listingId: number,
  { pairs, removedIds }: { pairs: ReadonlyMap<number, Comparison>; removedIds: readonly number[] },
): Promise<void> {
  await sql`delete from duplicate_pairs
    where low_id = ${listingId} and high_id = any(${[...removedIds]}::bigint[])
      or high_id = ${listingId} and low_id = any(${[...removedIds]}::bigint[])`.execute(trx);
  const rows = [...pairs].map(([id, { score, reasons }]) => ({
    low_id: Math.min(id, listingId),
    high_id: Math.max(id, listingId),
    score,
    reasons,
  }));
  await sql`
    insert into duplicate_pairs as pair (low_id, high_id, score, reasons)
    select * from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
      as new_pair (low_id bigint, high_id bigint, score real, reasons jsonb)
    on conflict (low_id, high_id) do update
      set score = excluded.score, reasons = excluded.reasons, updated_at = now()
      where pair.reasons is distinct from excluded.reasons`.execute(trx);
}

/**
 * Registers the gauge of pending duplicate searches (`duplicate_marks`). Every process reads the value from the
 * database on each scrape.
 * @param options.onError Called if the value cannot be read. The other metrics are still served.
 */
export function registerDuplicateMetrics(
  registry: Registry,
  { db, onError }: { db: Kysely<Tables>; onError: (error: unknown) => void },
): void {
  const gauge = new Gauge({
    name: 'collector_duplicate_marks',
    help: 'Changes that wait for the search for duplicates: "waiting", or "retried" after a failure. At most 100000 are counted.',
    labelNames: ['state'],
    registers: [registry],
    collect: createGaugeCollector({
      read: () => countMarks(db),
      update: (counts) => {
        for (const [state, count] of Object.entries(counts)) gauge.set({ state }, count);
      },
      reset: () => gauge.reset(),
      onError,
    }),
  });
}

async function countMarks(db: Kysely<Tables>): Promise<{ waiting: number; retried: number }> {
  const { rows } = await sql<{ waiting: number; retried: number }>`
    select count(*) filter (where attempts <= 1) as waiting,
      count(*) filter (where attempts > 1) as retried
    from (select attempts from duplicate_marks limit ${MAX_COUNTED_MARKS}) as mark`.execute(db);
  return rows[0] ?? { waiting: 0, retried: 0 };
}
