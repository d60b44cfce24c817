import { type Expression, type Kysely, sql, type SqlBool } from 'kysely';
import type { Tables } from '../tables.ts';

type Plan = { 'Plan Rows': number; Plans?: Plan[] };
type QueryPlan = { 'QUERY PLAN': [{ Plan: Plan }] };

/** Returns the planner's estimates of all listings and of those that meet a condition, because counting is slow. */
export async function estimateListings(
  db: Kysely<Tables>,
  condition: Expression<SqlBool>,
): Promise<{ listingCount: number; matchCount: number }> {
  const listings = db.selectFrom('listing_index').select('id');
  const query = listings.unionAll(listings.where(condition));
  const { rows } = await sql<QueryPlan>`explain (format json) ${query}`.execute(db);
  const plan = rows[0]?.['QUERY PLAN'][0].Plan;
  // A condition that is always false has no plan beside that of all listings.
  const [listingCount = 0, matchCount = 0] = (plan?.Plans ?? [plan]).map(
    (part) => part?.['Plan Rows'],
  );
  return { listingCount, matchCount: Math.min(listingCount, matchCount) };
}
