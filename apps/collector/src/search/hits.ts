import { prepared } from '@oselya/db';
import { type Expression, type Kysely, sql, type SqlBool } from 'kysely';
import { type Static, Type } from 'typebox';
import {
  listingReference,
  type ListingRow,
  presentListing,
  selectListing,
} from '../listing/listing.ts';
import type { Tables } from '../tables.ts';
import type { ResolvedFilters } from './filters.ts';

export const MAX_NAMED_DUPLICATES = 100;

/** Members of every hit. */
export const hitSchemas = {
  listing: listingReference,
  duplicates: Type.Optional(
    Type.Array(Type.Integer(), {
      maxItems: MAX_NAMED_DUPLICATES,
      description:
        'With `fold_duplicates`: the IDs of the other listings that are likely the same property, ' +
        `even if the search does not find them; at most ${MAX_NAMED_DUPLICATES} IDs.`,
    }),
  ),
};

/** Hit in a response, apart from its rank or distance. */
export type PresentedHit = Static<ReturnType<typeof Type.Object<typeof hitSchemas>>>;

/** Options of a search that its hits depend on. */
export type HitOptions = Pick<ResolvedFilters, 'conversion' | 'include_archived'> & {
  shouldFold?: boolean;
  condition?: Expression<SqlBool>;
};

/**
 * Loads the listings of hits in the same order, with converted prices. With `shouldFold`, adds the other members of
 * each group of likely duplicates. Listings that do not exist any more, or do not meet the condition, are left out.
 */
export async function loadHits<FoundHit extends { id: number }>(
  db: Kysely<Tables>,
  foundHits: readonly FoundHit[],
  options: HitOptions,
): Promise<{ hit: FoundHit; result: PresentedHit }[]> {
  if (foundHits.length === 0) return [];
  const { conversion, shouldFold = false, include_archived = false, condition } = options;
  const ids = foundHits.map(({ id }) => id);
  const isMatch =
    condition === undefined
      ? sql`true`
      : sql`exists (select from listing_index where id = property_listings.id and ${condition})`;
  // Only a statement without the values of a condition has a constant text.
  const { rows } = await sql<
    ListingRow & { duplicates: number[] | null }
  >`${condition === undefined ? prepared : sql``}
    select ${selectListing}, ${shouldFold ? selectDuplicates(include_archived) : sql`null`} as duplicates
    from property_listings where id = any(${ids}::bigint[]) and ${isMatch}`.execute(db);
  const results = new Map(
    rows.map(({ duplicates, ...row }): [number, PresentedHit] => {
      const listing = presentListing(row, conversion);
      return [row.id, { listing, ...(duplicates !== null && { duplicates }) }];
    }),
  );
  return foundHits.flatMap((hit) => {
    const result = results.get(hit.id);
    return result === undefined ? [] : [{ hit, result }];
  });
}

/** Returns the IDs of the likely duplicates of a row of `property_listings`. */
const selectDuplicates = (includeArchived: boolean) => sql`(
  select coalesce(jsonb_agg(id order by id), '[]') from (
    select id from listing_facts
    where duplicate_group = property_listings.duplicate_group and id <> property_listings.id
      and (${includeArchived} or is_live)
    order by id limit ${MAX_NAMED_DUPLICATES}) as member)`;
