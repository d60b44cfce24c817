import type { Selectable } from 'kysely';
import type { Tables } from '../tables.ts';

/** The columns of a listing that are compared. */
export const COMPARED_COLUMNS = [
  'id',
  'source_slug',
  'archived_at',
  'deal_type',
  'property_type',
  'city',
  'city_key',
  'district',
  'address',
  'rooms',
  'area_total',
  'floor',
  'floors_total',
  'latitude',
  'longitude',
  'price',
  'currency',
  'phones',
] as const satisfies readonly (keyof Tables['property_listings'])[];

/** A picture of a listing; 0n is one on which nothing is to be seen, null one that nobody looked at. */
export type ComparedPicture = { sha256: string; fingerprint: bigint | null };

/** A listing as it is compared with others. */
export type Compared = Pick<
  Selectable<Tables['property_listings']>,
  (typeof COMPARED_COLUMNS)[number]
> & {
  /** The beginning of what it says, as the search normaliser writes it. */
  text: string;
  pictures: readonly ComparedPicture[];
};
