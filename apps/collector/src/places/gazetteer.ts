import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { normalizeText } from '../text.ts';
import { inflect } from './inflection.ts';
import { createLatinKey } from './transliteration.ts';

type PlaceKind = 'country' | 'region' | 'raion' | 'city' | 'district';

/** Country, region, raion, city or district of the gazetteer. */
export type Place = {
  id: number;
  kind: PlaceKind;
  /** IDs of the place itself and of the places that contain it, smallest first. */
  path: readonly number[];
  latitude: number;
  longitude: number;
  names: { uk: string; ru: string; en: string };
};

/** Places by the keys of their names, read from `places.tsv` on first use. */
let placesByKey: Map<string, Place[]> | undefined;

/** Indexes the gazetteer. Its source and licence are in `places.md`. */
function indexPlaces(table: string): Map<string, Place[]> {
  const byId = new Map<number, Place>();
  const byKey = new Map<string, Place[]>();
  for (const row of table.trimEnd().split('\n').slice(1)) {
    const [id, kind, parent, latitude, longitude, , uk = '', ru = '', en = '', other = ''] =
      row.split('\t');
    const place: Place = {
      id: Number(id),
      // A test checks the kinds in the table.
      kind: kind as PlaceKind,
      path: [Number(id), ...(byId.get(Number(parent))?.path ?? [])],
      latitude: Number(latitude),
      longitude: Number(longitude),
      names: { uk, ru, en },
    };
    byId.set(place.id, place);
    const names = [uk, ru, en, ...other.split(',')].filter((name) => name !== '');
    for (const key of createKeys(names)) {
      const places = byKey.get(key);
      if (places === undefined) byKey.set(key, [place]);
      else places.push(place);
    }
  }
  return byKey;
}

function createKeys(names: readonly string[]): Set<string> {
  const keys = new Set<string>();
  for (const name of names) {
    const words = normalizeText(name);
    keys.add(words).add(createLatinKey(name));
    if (!/\p{Script=Cyrillic}/u.test(words)) continue;
    for (const language of ['uk', 'ru'] as const) {
      for (const form of inflect(words, language)) keys.add(form);
    }
    keys.add(createLatinKey(name, 'ru'));
  }
  return keys;
}

/** Kinds of places by the words that denote them. */
const KINDS_BY_WORD = new Map<string, readonly PlaceKind[]>(
  Object.entries({
    'м місто г гор город city town смт пгт с село сел селище поселок пос village': [
      'city',
    ] as const,
    'обл область области області oblast region': ['region'] as const,
    'р н район району районі районе района raion district мкр мікрорайон микрорайон масив массив жк':
      ['district', 'raion'] as const,
  }).flatMap(([words, kinds]) => words.split(' ').map((word) => [word, kinds] as const)),
);

const PREPOSITIONS = new Set(['у', 'в', 'во', 'in']);

/** Finds the places with a name in any language, grammatical case and spelling, such as "м. Львів" or "во Львове". */
export function findPlaces(text: string): Place[] {
  const normalizedText = normalizeText(text);
  const exactMatches = lookUp(normalizedText);
  if (exactMatches.length > 0) return exactMatches;
  const words = normalizedText.split(' ');
  const kinds = new Set(words.flatMap((word) => KINDS_BY_WORD.get(word) ?? []));
  const nameWords = words.filter((word) => !KINDS_BY_WORD.has(word) && !PREPOSITIONS.has(word));
  const name = nameWords.join(' ');
  const matches = lookUp(name);
  const matchesOfKind = matches.filter(({ kind }) => kinds.has(kind));
  if (matchesOfKind.length > 0) return matchesOfKind;
  return kinds.has('region') ? lookUp(`${name} область`) : matches;
}

function lookUp(name: string): Place[] {
  placesByKey ??= indexPlaces(readFileSync(join(import.meta.dirname, 'places.tsv'), 'utf8'));
  const places = placesByKey.get(name);
  if (places !== undefined) return places;
  const isLatin = /^[\p{Script=Latin}\p{N} ]+$/u.test(name);
  return (isLatin ? placesByKey.get(createLatinKey(name)) : undefined) ?? [];
}

/** Resolved place. Undefined if the fields name no known place, or several (`isAmbiguous`). */
export type Resolution = { place: Place | undefined; isAmbiguous: boolean };

const PART_SEPARATOR_PATTERN = /[,;()/]|\s[-–—]\s/u;

/**
 * Resolves the smallest place that the most parts of the fields name, directly or as a place that contains it. A
 * district or region therefore selects among cities with the same name.
 */
export function resolvePlace(fields: {
  city: string | null;
  district?: string | null;
  address?: string | null;
}): Resolution {
  const parts = [
    ...findPlacesOfParts(fields.city).map(preferLargePlaces),
    ...findPlacesOfParts(fields.district),
    // Street names often match the names of districts elsewhere, so districts are ignored.
    ...findPlacesOfParts(fields.address).map(selectLargePlaces),
  ].filter((places) => places.length > 0);
  const places = new Set(parts.length === 0 ? [] : selectBestPlaces(parts));
  const [place] = places;
  return { place: places.size === 1 ? place : undefined, isAmbiguous: places.size > 1 };
}

/** Omits districts if a larger place has the same name. */
function preferLargePlaces(places: Place[]): Place[] {
  const largePlaces = selectLargePlaces(places);
  return largePlaces.length > 0 ? largePlaces : places;
}

const selectLargePlaces = (places: Place[]) => places.filter(({ kind }) => kind !== 'district');

const findPlacesOfParts = (text: string | null | undefined) =>
  (text ?? '').split(PART_SEPARATOR_PATTERN).map(findPlaces);

/** Returns the places that match the most parts, without places that contain another match. */
function selectBestPlaces(parts: Place[][]): Place[] {
  const candidates = parts.flat();
  const countParts = (place: Place) =>
    parts.filter((places) => places.some(({ id }) => place.path.includes(id))).length;
  const maxCount = Math.max(...candidates.map(countParts));
  const bestPlaces = candidates.filter((place) => countParts(place) === maxCount);
  return bestPlaces.filter(
    (place) => !bestPlaces.some(({ id, path }) => id !== place.id && path.includes(place.id)),
  );
}
