import type { Selectable } from 'kysely';
import { type Static, Type } from 'typebox';
import type { Tables } from '../database/tables.ts';
import { nullable } from '../schemas/common.ts';
import { FACTS, factSchemas } from './facts.ts';

/** The columns that `presentListing` needs. */
export const listingColumns = [
  'id',
  'source_slug',
  'external_id',
  ...FACTS,
  'archived_at',
  'created_at',
  'updated_at',
] as const satisfies readonly (keyof Tables['property_listings'])[];

/** The columns of `property_listings` that an answer is made of. */
export type ListingRow = Pick<
  Selectable<Tables['property_listings']>,
  (typeof listingColumns)[number]
>;

const timestamp = Type.String({ format: 'date-time' });

/** A listing as the API answers it. Contract 4, PayloadSchema names the fields. */
export const listingSchema = Type.Object({
  listing_id: Type.Integer(),
  source_slug: Type.String(),
  external_id: Type.String(),
  ...factSchemas,
  archived_at: nullable(timestamp),
  created_at: timestamp,
  updated_at: timestamp,
});

/** A listing as the API answers it. */
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
