import { type Kysely, sql } from 'kysely';
import type { Tables } from '../database.ts';
import { matchesFilters } from './filters.ts';
import type { SearchFilters } from './schemas.ts';

type Explained = { 'QUERY PLAN': [{ Plan: { 'Plan Rows': number } }] };

/**
 * How many listings there are, and how many of them pass the filters, as PostgreSQL's planner estimates
 * from its statistics: to count them would take longer than most searches.
 */
export async function estimateListings(
  db: Kysely<Tables>,
  filters: SearchFilters,
): Promise<{ all: number; passing: number }> {
  const all = await estimate(db, { include_archived: true });
  return { all, passing: Math.min(all, await estimate(db, filters)) };
}

async function estimate(db: Kysely<Tables>, filters: SearchFilters): Promise<number> {
  const query = db.selectFrom('property_listings').select('id').where(matchesFilters(filters));
  const { rows } = await sql<Explained>`explain (format json) ${query}`.execute(db);
  return rows[0]?.['QUERY PLAN'][0].Plan['Plan Rows'] ?? 0;
}
