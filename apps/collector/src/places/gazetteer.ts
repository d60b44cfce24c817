import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { normalizeText } from '../text.ts';
import { inflect } from './inflection.ts';
import { createLatinKey } from './transliteration.ts';

type PlaceKind = 'country' | 'region' | 'raion' | 'city' | 'district';

/** Place of the gazetteer. */
export type Place = {
  id: number;
  kind: PlaceKind;
  /** IDs of the place itself and of the places that contain it, smallest first. */
  path: readonly number[];
  latitude: number;
  longitude: number;
  names: { uk: string; ru: string; en: string };
};

type Gazetteer = { byId: Map<number, Place>; byKey: Map<string, Place[]> };

let gazetteer: Gazetteer | undefined;

/** Reads the bundled gazetteer once. Its source and licence are in `places.md`. */
function getGazetteer(): Gazetteer {
  gazetteer ??= readGazetteer(readFileSync(join(import.meta.dirname, 'places.tsv'), 'utf8'));
  return gazetteer;
}

function readGazetteer(table: string): Gazetteer {
  const byId = new Map<number, Place>();
  const byKey = new Map<string, Place[]>();
  for (const row of table.trimEnd().split('\n').slice(1)) {
    const [id, kind, parent, latitude, longitude, , uk = '', ru = '', en = '', other] =
      row.split('\t');
    const place: Place = {
      id: Number(id),
      // The test of the table checks each kind.
      kind: kind as PlaceKind,
      path: [Number(id), ...(byId.get(Number(parent))?.path ?? [])],
      latitude: Number(latitude),
      longitude: Number(longitude),
      names: { uk, ru, en },
    };
    byId.set(place.id, place);
    const others = other === undefined || other === '' ? [] : other.split(',');
    for (const key of createKeys([uk, ru, en, ...others])) {
      const places = byKey.get(key);
      if (places === undefined) byKey.set(key, [place]);
      else places.push(place);
    }
  }
  return { byId, byKey };
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

/** Returns the place with this ID, if there is one. */
export const getPlace = (id: number): Place | undefined => getGazetteer().byId.get(id);

/** Words that say what kind of place a name is. */
const KIND_WORDS = new Map<string, readonly PlaceKind[]>(
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

/** Finds the places of a name in any language, case and spelling, such as "м. Львів" or "во Львове". */
export function findPlaces(text: string): Place[] {
  const words = normalizeText(text).split(' ');
  const named = lookUp(words.join(' '));
  if (named.length > 0) return named;
  const kinds = new Set(words.flatMap((word) => KIND_WORDS.get(word) ?? []));
  const names = words.filter((word) => !KIND_WORDS.has(word) && !PREPOSITIONS.has(word));
  const found = lookUp(names.join(' '));
  const ofKind = found.filter(({ kind }) => kinds.has(kind));
  return ofKind.length > 0 ? ofKind : kinds.has('region') ? lookUpRegion(names) : found;
}

function lookUp(name: string): Place[] {
  if (name === '') return [];
  const { byKey } = getGazetteer();
  return (
    byKey.get(name) ??
    (/^[\p{Script=Latin}\p{N} ]+$/u.test(name) ? (byKey.get(createLatinKey(name)) ?? []) : [])
  );
}

const lookUpRegion = (names: readonly string[]): Place[] => lookUp([...names, 'область'].join(' '));

/** Place of a listing. Without a place ID, the text does not name one place: it is unknown, or ambiguous. */
export type Resolution = { place: Place | undefined; isAmbiguous: boolean };

const PART_SEPARATOR_PATTERN = /[,;()/]|\s[-–—]\s/u;

/**
 * Resolves the place that the fields of a listing name. Of several places with the name of the city, the one that
 * contains, or lies in, the places that the other parts name.
 */
export function resolvePlace(fields: {
  city: string | null;
  district?: string | null;
  address?: string | null;
}): Resolution {
  const parts = [
    ...findPlacesOfParts(fields.city).map(preferLarge),
    ...findPlacesOfParts(fields.district),
    ...findPlacesOfParts(fields.address).map(onlyLarge),
  ].filter((places) => places.length > 0);
  if (parts.length === 0) return { place: undefined, isAmbiguous: false };
  const combinations = narrow(parts);
  const ids = new Set(combinations.map((path) => path.id));
  const [place] = combinations;
  return ids.size === 1 ? { place, isAmbiguous: false } : { place: undefined, isAmbiguous: true };
}

/** The city field names a district only if no larger place has the name. */
function preferLarge(places: Place[]): Place[] {
  const large = onlyLarge(places);
  return large.length > 0 ? large : places;
}

/** A street often has the name of a place elsewhere, so an address decides only by region, raion and city. */
const onlyLarge = (places: Place[]): Place[] => places.filter(({ kind }) => kind !== 'district');

function findPlacesOfParts(text: string | null | undefined): Place[][] {
  return (text ?? '')
    .split(PART_SEPARATOR_PATTERN)
    .map(findPlaces)
    .filter((places) => places.length > 0);
}

/** Returns the smallest places of which each part names one that contains it. */
function narrow(parts: Place[][]): Place[] {
  const candidates = parts.flat();
  const score = (place: Place) =>
    parts.filter((places) => places.some(({ id }) => place.path.includes(id))).length;
  const best = Math.max(...candidates.map(score));
  const fitting = candidates.filter((place) => score(place) === best);
  return fitting.filter(
    (place) => !fitting.some((other) => other.id !== place.id && other.path.includes(place.id)),
  );
}
