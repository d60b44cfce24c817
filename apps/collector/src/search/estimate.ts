import { type Expression, type Kysely, sql, type SqlBool } from 'kysely';
import type { Tables } from '../tables.ts';
import { type ResolvedFilters, whereFilters } from './filters.ts';

/** Pages of the table to sample; each has some 30 listings. A smaller table is counted whole. */
const SAMPLED_PAGES = 100;
const PAGE_BYTES = 8192;

type Estimate = { listingCount: number; matchCount: number };

/** Estimates by the filters of a request, which several parts of one search need. */
const estimates = new WeakMap<ResolvedFilters, Promise<Estimate>>();

/**
 * Estimates the numbers of all listings and of those that meet the filters of a request, because counting is slow.
 * @param words Condition on the columns of `listing_index`; its share of the listings is the planner's estimate.
 */
export async function estimateListings(
  db: Kysely<Tables>,
  filters: ResolvedFilters,
  words?: Expression<SqlBool>,
): Promise<Estimate> {
  const estimate = estimates.get(filters) ?? sampleListings(db, filters);
  estimates.set(filters, estimate);
  const { listingCount, matchCount } = await estimate;
  if (words === undefined || matchCount === 0) return { listingCount, matchCount };
  const wordsShare = Math.min(1, (await planRows(db, words)) / listingCount);
  return { listingCount, matchCount: matchCount * wordsShare };
}

/**
 * Counts in a sample. The planner would multiply the shares of conditions that depend on each other, such as latitude and
 * longitude.
 */
async function sampleListings(db: Kysely<Tables>, filters: ResolvedFilters): Promise<Estimate> {
  const share = sql`least(1, ${SAMPLED_PAGES * PAGE_BYTES}::float8 / greatest(1, pg_relation_size('listing_facts')))`;
  const { rows } = await sql<Estimate>`
    select count(*) / ${share} as "listingCount", count(*) filter (where ${whereFilters(filters)}) / ${share} as "matchCount"
    from listing_facts tablesample system (100 * ${share}) repeatable (0)`.execute(db);
  return rows[0] ?? { listingCount: 0, matchCount: 0 };
}

async function planRows(db: Kysely<Tables>, condition: Expression<SqlBool>): Promise<number> {
  type QueryPlan = { 'QUERY PLAN': [{ Plan: { 'Plan Rows': number } }] };
  const { rows } = await sql<QueryPlan>`
    explain (format json) select from listing_index where ${condition}`.execute(db);
  return rows[0]?.['QUERY PLAN'][0].Plan['Plan Rows'] ?? 0;
}
