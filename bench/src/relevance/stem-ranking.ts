import { analyzeQuery, expandUnknownWords, type Tables } from '@oselya/collector/internals';
import { type Kysely, sql } from 'kysely';

const MAX_HITS = 50;

/** A listing that matches more of the query's weight is before all that match less. */
const COVERAGE_FACTOR = 10;

/**
 * Returns the IDs of the listings that match the stems and facts of a query, best first: by the weight of the matched
 * words, then by how often and where they occur. Computed for all listings, without an index.
 */
export async function rankByStems(db: Kysely<Tables>, query: string): Promise<number[]> {
  const { groups, limits } = analyzeQuery(query);
  const weightedGroups = await expandUnknownWords(db, groups);
  const totalWeight = weightedGroups.reduce((sum, { weight }) => sum + weight, 0) || 1;
  const scores = weightedGroups.map(({ tsquery, weight }) => {
    const groupQuery = sql`${tsquery}::tsquery`;
    return sql`(stems @@ ${groupQuery})::integer * ${(COVERAGE_FACTOR * weight) / totalWeight}::float8
      + ts_rank('{0.1, 0.2, 0.4, 1}', stems, ${groupQuery}, 1) * ${weight}::float8`;
  });
  const matches = weightedGroups.map(({ tsquery }) => sql`stems @@ ${tsquery}::tsquery`);
  const { price_min, price_max, currency, area_min, area_max } = limits;
  const rate = sql`coalesce((select rate from currency_rates where currency = ${currency ?? null}::text order by day desc limit 1), 1)`;
  const price =
    currency === undefined
      ? sql`listing.price`
      : sql`(listing.price * coalesce((select rate from currency_rates where currency = listing.currency order by day desc limit 1), 1) / ${rate})`;
  const { rows } = await sql<{ id: number }>`
    select id from relevance_stems join property_listings as listing using (id)
    where (${matches.length === 0 ? sql`true` : sql.join(matches, sql` or `)})
      and (${price_min ?? null}::numeric is null or ${price} >= ${price_min ?? null}::numeric)
      and (${price_max ?? null}::numeric is null or ${price} <= ${price_max ?? null}::numeric)
      and (${area_min ?? null}::numeric is null or listing.area_total >= ${area_min ?? null}::numeric)
      and (${area_max ?? null}::numeric is null or listing.area_total <= ${area_max ?? null}::numeric)
    order by ${scores.length === 0 ? sql`id` : sql.join(scores, sql` + `)} desc, id desc
    limit ${MAX_HITS}`.execute(db);
  return rows.map(({ id }) => id);
}
