import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { matchesFilters } from './filters.sql.ts';
import type { SearchFilters } from './schemas.ts';

/** Of a plan that appends two scans. */
type Explained = { 'QUERY PLAN': [{ Plan: { Plans: { 'Plan Rows': number }[] } }] };

/**
 * How many listings there are, and how many of them pass the filters, as PostgreSQL's planner estimates
 * from its statistics: to count them would take longer than most searches.
 */
export async function estimateListings(
  db: Kysely<Tables>,
  filters: SearchFilters,
): Promise<{ all: number; passing: number }> {
  const every = db.selectFrom('property_listings').select('id');
  const query = every.unionAll(every.where(matchesFilters(filters)));
  const { rows } = await sql<Explained>`explain (format json) ${query}`.execute(db);
  const [all = 0, passing = 0] =
    rows[0]?.['QUERY PLAN'][0].Plan.Plans.map((plan) => plan['Plan Rows']) ?? [];
  return { all, passing: Math.min(all, passing) };
}
