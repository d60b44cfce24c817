import { formatNumber } from '@oselya/kit';
import { type Static, Type } from 'typebox';

/** How many listings a search gives the model at most. */
export const MOST_LISTINGS = 10;

const amount = (description: string) => Type.Optional(Type.Number({ minimum: 0, description }));
const count = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: 1000, description }));

/** What searches of listings can be narrowed by. Contract 4, Search. */
export const listingFilters = {
  deal_type: Type.Optional(
    Type.Enum(['sale', 'rent', 'daily_rent'], {
      description: 'sale; rent by the month; daily_rent by the day',
    }),
  ),
  city: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
  property_type: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 100,
      description: 'such as apartment, house, room, land, garage, office',
    }),
  ),
  price_min: amount('in the currency of the listing'),
  price_max: amount('in the currency of the listing'),
  rooms_min: count('rooms, without kitchen and bathroom'),
  rooms_max: count('rooms, without kitchen and bathroom'),
  area_min: amount('square metres in all'),
  area_max: amount('square metres in all'),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MOST_LISTINGS,
      description: `how many, up to ${MOST_LISTINGS}; 5 without it`,
    }),
  ),
};

const filterSchema = Type.Object(listingFilters);

/** What a search is narrowed to, in words for people: "rent · Львів · 2 rooms · ≤ 15 000". */
export function describeFilters(filters: Static<typeof filterSchema>): string {
  const { deal_type, city, property_type } = filters;
  return [
    deal_type,
    city,
    property_type,
    range(filters.rooms_min, filters.rooms_max, 'rooms'),
    range(filters.price_min, filters.price_max, 'price'),
    range(filters.area_min, filters.area_max, 'm²'),
  ]
    .filter((part) => part !== undefined)
    .join(' · ');
}

function range(min: number | undefined, max: number | undefined, unit: string): string | undefined {
  const [least, most] = [min, max].map((bound) =>
    bound === undefined ? undefined : formatNumber(bound),
  );
  if (least === undefined && most === undefined) return undefined;
  if (least === most) return `${unit} ${least}`;
  if (least === undefined) return `${unit} ≤ ${most}`;
  if (most === undefined) return `${unit} ≥ ${least}`;
  return `${unit} ${least}–${most}`;
}
