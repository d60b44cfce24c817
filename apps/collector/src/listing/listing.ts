import { type JoinBuilder, type Selectable, sql } from 'kysely';
import { type Static, Type } from 'typebox';
import type { Tables } from '../tables.ts';
import { type Conversion, convertedPriceSchema, convertPrice } from '../money/conversion.ts';
import { placeSchema, presentPlace } from '../places/listing-place.ts';
import { nullable } from '../schemas.ts';
import { listingFieldSchemas, FIELD_NAMES } from './fields.ts';
import { provenanceSchema } from './provenance.ts';

const listingColumns = [
  'id',
  'source_slug',
  'external_id',
  ...FIELD_NAMES,
  'place_id',
  'place_text',
  'place_status',
  'archived_at',
  'created_at',
  'updated_at',
] as const satisfies readonly (keyof Tables['property_listings'])[];

const timestampSchema = Type.String({ format: 'date-time' });

/** Members of a listing in responses that other tables have. */
const relatedSchemas = {
  cover: nullable(
    Type.Object(
      { sha256: Type.String(), width: Type.Integer(), height: Type.Integer() },
      { description: 'The first stored image.' },
    ),
  ),
  image_count: Type.Integer({ description: 'Number of stored images.' }),
  previous_price: nullable(
    Type.Object(
      { price: Type.Number(), currency: Type.String(), changed_at: timestampSchema },
      { description: 'Price before the last change in the same currency.' },
    ),
  ),
  duplicate_count: Type.Integer({
    description:
      'Number of other listings that are likely the same property, without archived listings.',
  }),
  provenance: nullable(provenanceSchema),
};

/** Row of a listing in responses, which `selectListing` selects. */
export type ListingRow = Pick<
  Selectable<Tables['property_listings']>,
  (typeof listingColumns)[number]
> & { related: Static<ReturnType<typeof Type.Object<typeof relatedSchemas>>> };

/** Selection of a `ListingRow` in a query of `property_listings`. */
export const selectListing = sql`${sql.join(listingColumns.map((column) => sql.ref(column)))}, (
  select jsonb_build_object(
    'cover', (
      select jsonb_build_object('sha256', sha256, 'width', width, 'height', height)
      from listing_images join images using (sha256)
      where listing_id = property_listings.id order by position limit 1),
    'image_count', image_count,
    'previous_price', case when price_before is not null and currency is not null
      then jsonb_build_object('price', price_before, 'currency', currency, 'changed_at', price_changed_at) end,
    'duplicate_count', (
      select count(*) from listing_facts as other
      where other.duplicate_group = facts.duplicate_group and other.id <> facts.id and other.is_live),
    'provenance', (
      select value || jsonb_build_object('raw_id', (
        select raw.id from listing_payloads as current join raw_data as raw on raw.id = current.raw_id
        where current.source_slug = property_listings.source_slug
          and current.external_id = property_listings.external_id))
      from listing_enrichments where listing_id = property_listings.id and kind = 'provenance'))
  from listing_facts as facts where facts.id = property_listings.id) as related`;

/** Listing in API responses. */
export const listingSchema = Type.Object(
  {
    listing_id: Type.Integer(),
    source_slug: Type.String(),
    external_id: Type.String(),
    ...listingFieldSchemas,
    place: placeSchema,
    price_converted: convertedPriceSchema,
    price_per_m2_converted: convertedPriceSchema,
    ...relatedSchemas,
    archived_at: nullable(timestampSchema),
    first_seen_at: timestampSchema,
    created_at: timestampSchema,
    updated_at: timestampSchema,
  },
  { $id: 'Listing' },
);

export type Listing = Static<typeof listingSchema>;

/** Reference to `listingSchema`, which `registerListingRoutes` adds to the server. */
export const listingReference = Type.Unsafe<Listing>(Type.Ref('Listing'));

/** Converts a row of `property_listings` to an API listing, with its price in the requested currency. */
export function presentListing(listing: ListingRow, conversion?: Conversion): Listing {
  const { id, place_id, place_text, place_status, related, ...row } = listing;
  const entries = Object.entries(row).map(([name, value]) => [
    name,
    value instanceof Date ? value.toISOString() : value,
  ]);
  // Apart from these members, the row and the response differ only in the type of their timestamps.
  const values = Object.fromEntries(entries) as Omit<
    Listing,
    | 'listing_id'
    | 'place'
    | 'price_converted'
    | 'price_per_m2_converted'
    | 'first_seen_at'
    | keyof typeof relatedSchemas
  >;
  const pricePerM2 = row.price_per_m2 ?? computePricePerArea(row) ?? null;
  return {
    listing_id: id,
    ...values,
    price_per_m2: pricePerM2,
    place: presentPlace({ place_id, place_text, place_status }),
    price_converted: convertPrice(row, conversion),
    price_per_m2_converted: convertPrice({ price: pricePerM2, currency: row.currency }, conversion),
    ...related,
    first_seen_at: values.created_at,
  };
}

/**
 * Computes the price per square metre, rounded to two decimals as the filters of searches round it. Returns undefined
 * without a price or with no or zero area.
 */
export function computePricePerArea(
  listing: Partial<Pick<Listing, 'price' | 'area_total'>>,
): number | undefined {
  const { price, area_total: area } = listing;
  if (price == null || area == null) return undefined;
  // Hundredths are integers, so a quotient halfway between two of them is exact.
  const areaInHundredths = Math.round(area * 100);
  if (areaInHundredths === 0) return undefined;
  return Math.round((Math.round(price * 100) * 100) / areaInHundredths) / 100;
}

type JoinedTables = { listing: Tables['property_listings']; current: Tables['listing_payloads'] };
type ListingJoin = JoinBuilder<JoinedTables, keyof JoinedTables>;

/**
 * Joins `listing` with `current`, its row of `listing_payloads`.
 * @example db.selectFrom('property_listings as listing').innerJoin('listing_payloads as current', joinSameListing)
 */
export function joinSameListing(join: ListingJoin): ListingJoin {
  return join
    .onRef('current.source_slug', '=', 'listing.source_slug')
    .onRef('current.external_id', '=', 'listing.external_id');
}
