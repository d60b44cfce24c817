import { formatNumber } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { searchFilters } from '../../collector/generated/openapi.ts';

/** Maximum number of listings that a search returns to the model. */
const MAX_LISTINGS = 10;

const { price_min, rooms_min, area_min } = searchFilters;
const price = Type.Optional(
  Type.Number({ ...price_min, description: 'in the currency of the listing' }),
);
const area = Type.Optional(Type.Number({ ...area_min, description: 'square metres in all' }));
const rooms = Type.Optional(
  Type.Integer({ ...rooms_min, description: 'rooms, without kitchen and bathroom' }),
);

/** Filters of the tools that search listings, with the collector's bounds. Contract 4, Search. */
export const listingFilters = {
  deal_type: Type.Optional(
    Type.Enum(['sale', 'rent', 'daily_rent'], {
      description: 'sale; rent by the month; daily_rent by the day',
    }),
  ),
  city: Type.Optional(Type.String({ minLength: 1, maxLength: searchFilters.city.maxLength })),
  property_type: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: searchFilters.property_type.maxLength,
      description: 'such as apartment, house, room, land, garage, office',
    }),
  ),
  price_min: price,
  price_max: price,
  rooms_min: rooms,
  rooms_max: rooms,
  area_min: area,
  area_max: area,
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_LISTINGS,
      description: `how many, up to ${MAX_LISTINGS}; 5 without it`,
    }),
  ),
};

const filterSchema = Type.Object(listingFilters);

/** Formats the filters of a search for people: "rent · Львів · rooms 2 · price ≤ 15 000". */
export function formatFilters(filters: Static<typeof filterSchema>): string {
  const { deal_type, city, property_type } = filters;
  return [
    deal_type,
    city,
    property_type,
    formatRange('rooms', filters.rooms_min, filters.rooms_max),
    formatRange('price', filters.price_min, filters.price_max),
    formatRange('m²', filters.area_min, filters.area_max),
  ]
    .filter(Boolean)
    .join(' · ');
}

function formatRange(unit: string, min: number | undefined, max: number | undefined): string {
  if (min === undefined) return max === undefined ? '' : `${unit} ≤ ${formatNumber(max)}`;
  if (max === undefined) return `${unit} ≥ ${formatNumber(min)}`;
  return `${unit} ${formatNumber(min)}${min === max ? '' : `–${formatNumber(max)}`}`;
}
