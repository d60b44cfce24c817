import { type Static, Type } from 'typebox';
import { choice, nullable } from '../schemas.ts';
import {
  createPlaceKey,
  findDistricts,
  getAncestor,
  getPlace,
  type Place,
  resolvePlaces,
} from './gazetteer.ts';

/** Whether the gazetteer has one place for the names of a listing, several, or none. */
const PLACE_STATUSES = ['resolved', 'ambiguous', 'unknown'] as const;
export type PlaceStatus = (typeof PLACE_STATUSES)[number];

/** Columns of `property_listings` with the place of a listing. */
export type PlaceColumns = {
  place_id: number | null;
  /** IDs of the place and of the places that contain it, smallest first. */
  place_path: number[] | null;
  /** City and district as the source or the model wrote them. */
  place_text: string | null;
  place_status: PlaceStatus;
};

type PlaceRow = Pick<PlaceColumns, 'place_id' | 'place_text'> & {
  place_status: PlaceStatus | null;
};

/** Place in API responses. */
export const placeSchema = nullable(
  Type.Object(
    {
      status: choice(PLACE_STATUSES, {
        description:
          '`ambiguous` if several places have the name, `unknown` if none has it: the names are then as written.',
      }),
      place_id: nullable(Type.Integer()),
      city: nullable(Type.String()),
      district: nullable(Type.String()),
      region: nullable(Type.String()),
      text: nullable(Type.String({ description: 'City and district as the listing has them.' })),
    },
    {
      description:
        'Place in the gazetteer, with its names in Ukrainian; null if the listing names no place.',
    },
  ),
);

type NamedPlace = { city: string | null; district: string | null };

/**
 * Resolves the place of a listing, and returns its columns with the canonical names of city and district. A name without
 * a place stays as written.
 */
export function resolveListingPlace(
  fields: NamedPlace & { address: string | null; title: string | null; description: string },
): NamedPlace & { columns: PlaceColumns } {
  const { city, district, address, title, description } = fields;
  const text = `${title ?? ''}\n${description}`;
  const [place, ...otherPlaces] = resolvePlaces({ city, district, address, text });
  const place_text = joinNames(fields);
  if (place === undefined || otherPlaces.length > 0) {
    const place_status = place === undefined ? 'unknown' : 'ambiguous';
    const columns = { place_id: null, place_path: null, place_text, place_status } as const;
    return { city, district, columns };
  }
  return {
    city: getAncestor(place, 'city')?.names.uk ?? city,
    district: getDistrictName(place, district),
    columns: {
      place_id: place.id,
      place_path: [...place.path],
      place_text,
      place_status: 'resolved',
    },
  };
}

/** Joins the names of city and district; null if both are unknown. */
export function joinNames({ city, district }: NamedPlace): string | null {
  return [city, district].filter((name) => name !== null).join(', ') || null;
}

/** Returns the name of the district, or of the raion if the written district is one. */
function getDistrictName(place: Place, district: string | null): string | null {
  if (place.kind === 'district') return place.names.uk;
  const raion = findDistricts(district ?? '').find(
    ({ id, kind }) => kind === 'raion' && place.path.includes(id),
  );
  return raion?.names.uk ?? district;
}

/** Returns the names by which unknown places are found. */
export function getPlaceKeys({ city, district }: NamedPlace) {
  return {
    city_key: city === null ? null : createPlaceKey(city),
    district_key: district === null ? null : createPlaceKey(district),
  };
}

/** Returns the place of a listing for API responses; null if the listing names none, or the upkeep has yet to resolve it. */
export function presentPlace(row: PlaceRow): Static<typeof placeSchema> {
  const { place_id, place_text: text, place_status: status } = row;
  if (status === null || (place_id === null && text === null)) return null;
  const place = place_id === null ? undefined : getPlace(place_id);
  const getName = (kind: Place['kind']) => place && getAncestor(place, kind)?.names.uk;
  return {
    status,
    place_id,
    city: getName('city') ?? null,
    district: getName('district') ?? null,
    region: getName('region') ?? null,
    text,
  };
}

/** Returns whether two places are in the same city. Undefined if one of them is in no city. */
export function areInSameCity(
  pathA: readonly number[],
  pathB: readonly number[],
): boolean | undefined {
  const [cityA, cityB] = [findId(pathA, 'city'), findId(pathB, 'city')];
  return cityA === undefined || cityB === undefined ? undefined : cityA === cityB;
}

/** Returns whether two districts are the same, or one lies in the other. Undefined if a place is no district. */
export function areSameDistrict(
  pathA: readonly number[],
  pathB: readonly number[],
): boolean | undefined {
  const areDistricts = [pathA, pathB].every((path) => findId(path, 'district') !== undefined);
  return areDistricts ? contains(pathA, pathB) || contains(pathB, pathA) : undefined;
}

const findId = (path: readonly number[], kind: Place['kind']) =>
  path.find((id) => getPlace(id)?.kind === kind);

/** Returns whether the place of the first path lies in the place of the second path, or is the same. */
const contains = (path: readonly number[], [outerId]: readonly number[]) =>
  outerId !== undefined && path.includes(outerId);
