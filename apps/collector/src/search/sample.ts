import { type Kysely, type RawBuilder, sql, type SqlBool } from 'kysely';
import type { Tables } from '../tables.ts';
import { normalizeText } from '../text.ts';
import { estimateListings } from './estimate.ts';
import { listAreas, type ResolvedFilters, whereFilters, whereFilterTerms } from './filters.ts';
import { MAX_COUNTED_MATCHES } from './schemas.ts';

/**
 * Returns a query for the columns of the matches that facets and points count: all matches if there are few, otherwise
 * the newest ones.
 */
export async function selectSample(
  db: Kysely<Tables>,
  { query, filters }: { query: string | undefined; filters: ResolvedFilters },
): Promise<RawBuilder<unknown>> {
  const text = query === undefined ? undefined : normalizeText(query);
  const hasWords =
    text === undefined
      ? sql<SqlBool>`true`
      : sql<SqlBool>`words @@ plainto_tsquery('simple', ${text})`;
  const { matchCount } = await estimateListings(
    db,
    filters,
    text === undefined ? undefined : hasWords,
  );
  const table = sql.raw(text === undefined ? 'listing_facts' : 'listing_index');
  const columns = sql`id, source_slug, deal_type, property_type, place_path, city_key, district_key, price, currency, price_per_m2,
    area_total, rooms, features, image_count, latitude, longitude`;
  if (matchCount > MAX_COUNTED_MATCHES) {
    return sql`select ${columns} from ${table} where ${whereFilters(filters)} and ${hasWords}
      order by id desc limit ${MAX_COUNTED_MATCHES}`;
  }
  // An index of positions reads rows, in which terms would be computed.
  const isReadByPosition =
    text === undefined && listAreas(filters).length > 0 && !(await areFewWithoutAreas(db, filters));
  const meetsFilters = isReadByPosition ? whereFilters(filters) : whereFilterTerms(filters);
  return sql`select ${columns} from ${table} where ${meetsFilters} and ${hasWords}
    order by id + 0 desc limit ${MAX_COUNTED_MATCHES}`;
}

async function areFewWithoutAreas(db: Kysely<Tables>, filters: ResolvedFilters): Promise<boolean> {
  const otherFilters = { ...filters, bbox: undefined, near: undefined };
  const { matchCount } = await estimateListings(db, otherFilters);
  return matchCount <= MAX_COUNTED_MATCHES;
}
