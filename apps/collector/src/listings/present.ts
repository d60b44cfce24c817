import type { Selectable } from 'kysely';
import { type Static, Type } from 'typebox';
import type { Tables } from '../database.ts';
import { nullable } from '../schema.ts';

/** The columns that `presentListing` needs. */
export const listingColumns = [
  'id',
  'source_slug',
  'external_id',
  'url',
  'title',
  'description',
  'summary',
  'language',
  'deal_type',
  'property_type',
  'price',
  'currency',
  'city',
  'district',
  'address',
  'rooms',
  'area_total',
  'area_living',
  'area_kitchen',
  'floor',
  'floors_total',
  'latitude',
  'longitude',
  'contact_name',
  'phones',
  'features',
  'attributes',
  'published_at',
  'archived_at',
  'created_at',
  'updated_at',
] as const satisfies readonly (keyof Tables['property_listings'])[];

export type ListingRow = Pick<
  Selectable<Tables['property_listings']>,
  (typeof listingColumns)[number]
>;

const text = nullable(Type.String());
const number = nullable(Type.Number());
const integer = nullable(Type.Integer());
const timestamp = Type.String({ format: 'date-time' });

/** A listing as the API answers it. Contract 4, PayloadSchema names the fields. */
export const listingSchema = Type.Object({
  listing_id: Type.Integer(),
  source_slug: Type.String(),
  external_id: Type.String(),
  url: text,
  title: text,
  description: Type.String(),
  summary: text,
  language: text,
  deal_type: text,
  property_type: text,
  price: number,
  currency: text,
  city: text,
  district: text,
  address: text,
  rooms: integer,
  area_total: number,
  area_living: number,
  area_kitchen: number,
  floor: integer,
  floors_total: integer,
  latitude: number,
  longitude: number,
  contact_name: text,
  phones: Type.Array(Type.String()),
  features: Type.Array(Type.String()),
  attributes: Type.Object({}, { additionalProperties: true }),
  published_at: nullable(timestamp),
  archived_at: nullable(timestamp),
  created_at: timestamp,
  updated_at: timestamp,
});

export type Listing = Static<typeof listingSchema>;

/** Turns a row of `property_listings` into what the API answers. */
export function presentListing({ id, ...row }: ListingRow): Listing {
  return {
    listing_id: id,
    ...row,
    published_at: row.published_at?.toISOString() ?? null,
    archived_at: row.archived_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
