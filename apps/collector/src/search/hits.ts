import { prepared } from '@oselya/db';
import { type Expression, type Kysely, sql, type SqlBool } from 'kysely';
import { type Static, Type } from 'typebox';
import {
  listingColumns,
  listingReference,
  type ListingRow,
  presentListing,
} from '../listing/listing.ts';
import { nullable } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import type { ResolvedFilters } from './filters.ts';

export const MAX_NAMED_DUPLICATES = 100;

/** Members of every hit: the listing, and facts for lists that are not part of it. */
export const hitSchemas = {
  listing: listingReference,
  cover: nullable(
    Type.Object(
      { sha256: Type.String(), width: Type.Integer(), height: Type.Integer() },
      { description: 'The first stored image.' },
    ),
  ),
  image_count: Type.Integer({ description: 'Number of stored images.' }),
  price_before: nullable(
    Type.Object(
      {
        amount: Type.Number(),
        currency: Type.String(),
        changed_at: Type.String({ format: 'date-time' }),
      },
      { description: 'Price before the last change in the same currency.' },
    ),
  ),
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

type HitRow = Omit<PresentedHit, 'listing' | 'price_before'> & {
  price_before: { amount: number; changed_at: string } | null;
};

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
    ListingRow & { hit: HitRow }
  >`${condition === undefined ? prepared : sql``}
    select ${sql.join(listingColumns.map((column) => sql.ref(column)))},
      ${selectHitFacts(shouldFold, include_archived)} as hit
    from property_listings where id = any(${ids}::bigint[]) and ${isMatch}`.execute(db);
  const results = new Map(
    rows.map(({ hit, ...row }) => {
      const { price_before: before, ...facts } = hit;
      const listing = presentListing(row, conversion);
      const price_before =
        before === null || row.currency === null ? null : { ...before, currency: row.currency };
      return [row.id, { listing, price_before, ...facts }];
    }),
  );
  return foundHits.flatMap((hit) => {
    const result = results.get(hit.id);
    return result === undefined ? [] : [{ hit, result }];
  });
}

/** Returns the facts of a row of `property_listings` for its hit, as one JSON object. */
function selectHitFacts(shouldFold: boolean, includeArchived: boolean) {
  const duplicates = sql`, 'duplicates', (
    select coalesce(jsonb_agg(id order by id), '[]') from (
      select id from listing_facts
      where duplicate_group = property_listings.duplicate_group and id <> property_listings.id
        and (${includeArchived} or is_live)
      order by id limit ${MAX_NAMED_DUPLICATES}) as member)`;
  return sql<HitRow>`(
    select jsonb_build_object(
      'cover', (
        select jsonb_build_object('sha256', sha256, 'width', width, 'height', height)
        from listing_images join images using (sha256)
        where listing_id = property_listings.id order by position limit 1),
      'image_count', indexed.image_count,
      'price_before', case when indexed.price_before is not null then jsonb_build_object(
        'amount', indexed.price_before, 'changed_at', indexed.price_changed_at) end
      ${shouldFold ? duplicates : sql``})
    from listing_facts as indexed where indexed.id = property_listings.id)`;
}
