import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { normalizeText } from '../text.ts';
import { inflect } from './inflection.ts';
import { createLatinKey } from './transliteration.ts';

export type PlaceKind = 'country' | 'region' | 'raion' | 'city' | 'district';

/** Country, region, raion, city or district of the gazetteer. */
export type Place = {
  id: number;
  kind: PlaceKind;
  /** IDs of the place itself and of the places that contain it, smallest first. */
  path: readonly number[];
  latitude: number;
  longitude: number;
  /** Undefined if unknown. */
  population: number | undefined;
  names: { uk: string; ru: string; en: string };
};

type PlaceIndex = {
  byId: Map<number, Place>;
  byKey: Map<string, Place[]>;
  /** The keys in order, to find those with a beginning. */
  sortedKeys: string[];
};

/** Places by ID and by the keys of their names. */
let placeIndex: PlaceIndex | undefined;

/** Returns the indexed gazetteer, and reads it on first use. */
function getPlaceIndex(): PlaceIndex {
  placeIndex ??= indexPlaces(readFileSync(join(import.meta.dirname, 'places.tsv'), 'utf8'));
  return placeIndex;
}

const compareKeys = (a: string, b: string) => (a < b ? -1 : Number(a > b));

/** Indexes the gazetteer. Its source and licence are in `places.md`. */
function indexPlaces(table: string): PlaceIndex {
  const byId = new Map<number, Place>();
  const byKey = new Map<string, Place[]>();
  for (const row of table.trimEnd().split('\n').slice(1)) {
    const [id, kind, parent, latitude, longitude, ...texts] = row.split('\t');
    const [population, uk = '', ru = '', en = '', other = ''] = texts;
    const place: Place = {
      id: Number(id),
      // A test checks the kinds in the table.
      kind: kind as PlaceKind,
      path: [Number(id), ...(byId.get(Number(parent))?.path ?? [])],
      latitude: Number(latitude),
      longitude: Number(longitude),
      population: Number(population) || undefined,
      names: { uk, ru, en },
    };
    byId.set(place.id, place);
    const keys = [
      ...createKeys(uk, ['uk']),
      ...createKeys(ru, ['ru']),
      ...[en, ...other.split(',')].flatMap((name) => [...createKeys(name, ['uk', 'ru'])]),
    ];
    for (const key of new Set(keys)) {
      const places = byKey.get(key);
      if (places === undefined) byKey.set(key, [place]);
      else places.push(place);
    }
  }
  return { byId, byKey, sortedKeys: [...byKey.keys()].toSorted(compareKeys) };
}

/** Returns the place with an ID. Undefined if the gazetteer has no such place. */
export function getPlace(id: number): Place | undefined {
  return getPlaceIndex().byId.get(id);
}

/** Returns the smallest place of a kind that a place lies in, or the place itself. */
export function getAncestor(place: Place, kind: PlaceKind): Place | undefined {
  return place.path.map(getPlace).find((ancestor) => ancestor?.kind === kind);
}

function createKeys(name: string, languages: readonly ('uk' | 'ru')[]): Set<string> {
  if (name === '') return new Set();
  const words = normalizeText(name);
  const keys = new Set([words, createLatinKey(name)]);
  if (!/\p{Script=Cyrillic}/u.test(words)) return keys;
  for (const language of languages) {
    for (const form of inflect(words, language)) keys.add(form);
  }
  return keys.add(createLatinKey(name, 'ru'));
}

/** Kinds of places by the words that denote them. */
const KINDS_BY_WORD = new Map<string, readonly PlaceKind[]>(
  Object.entries({
    'м місто місті г гор город городе city town смт пгт с село селі селе сел селище селищі поселок поселке пос village':
      ['city'] as const,
    'обл область области області oblast region': ['region'] as const,
    'р н район району районі районе района raion rayon district мкр мкрн мікр микр мікрорайон микрорайон mikroraion mikrorayon масив массив ж жм житломасив жилмассив жк':
      ['district', 'raion'] as const,
  }).flatMap(([words, kinds]) => words.split(' ').map((word) => [word, kinds] as const)),
);

const PREPOSITIONS = new Set(['у', 'в', 'во', 'на', 'in', 'on']);

const isNumber = (word: string) => /^\d+$/u.test(word);

/** Finds the places with a name in any language, grammatical case and spelling, such as "м. Львів" or "во Львове". */
export function findPlaces(text: string): Place[] {
  const normalizedText = normalizeText(text);
  const exactMatches = lookUp(normalizedText);
  // A raion may have the name of a district: "Дніпровський район".
  if (exactMatches.some(({ kind }) => kind !== 'raion')) return exactMatches;
  const words = normalizedText.split(' ');
  const kinds = new Set(words.flatMap((word) => KINDS_BY_WORD.get(word) ?? []));
  const nameWords = words.filter((word) => !KINDS_BY_WORD.has(word) && !PREPOSITIONS.has(word));
  const name = nameWords.join(' ');
  const matches = [...new Set([...exactMatches, ...lookUp(name)])];
  const matchesOfKind = matches.filter(({ kind }) => kinds.has(kind));
  if (matchesOfKind.length > 0) return matchesOfKind;
  if (kinds.has('region')) return findRegions(name);
  if (matches.length > 0) return matches;
  // Parts of a district have numbers: "Тополя-2".
  const wholeDistricts = lookUp(nameWords.filter((word) => !isNumber(word)).join(' '));
  if (wholeDistricts.length > 0) return wholeDistricts;
  return kinds.has('raion') ? lookUp(`${name} район`) : [];
}

/** Normalizes the name of an unknown place without the words before it: "с. Вигадане" and "у селі Вигадане" are equal. */
export function createPlaceKey(name: string): string {
  const words = normalizeText(name).split(' ');
  const start = words.findIndex((word) => !KINDS_BY_WORD.has(word) && !PREPOSITIONS.has(word));
  return words.slice(Math.max(0, start)).join(' ');
}

/** Finds places as `findPlaces` does, and raions by their name without the word for raion. */
export function findDistricts(name: string): Place[] {
  const places = findPlaces(name);
  return places.length > 0 ? places : findPlaces(`${name} район`);
}

/** Finds regions by their name without the word for region, such as "Одеська". */
export function findRegions(name: string): Place[] {
  const normalizedName = normalizeText(name);
  return ['область', 'oblast']
    .flatMap((word) => lookUp(`${normalizedName} ${word}`))
    .filter(({ kind }) => kind === 'region');
}

function lookUp(name: string): Place[] {
  const { byKey } = getPlaceIndex();
  const places = byKey.get(name);
  if (places !== undefined) return places;
  const isLatin = /^[\p{Script=Latin}\p{N} ]+$/u.test(name);
  return (isLatin ? byKey.get(createLatinKey(name)) : undefined) ?? [];
}

/** Finds the places that a filter by city names; all places of the name if nothing decides between them. */
export const findFilterCities = (city: string): Place[] => resolvePlaces({ city });

/** Returns the name by which a filter finds a place: with the region if other cities have the same name. */
export function getFilterName(place: Place): string {
  const name = place.names.uk;
  const region = getAncestor(place, 'region')?.names.uk;
  const isUnique = () => findFilterCities(name).every(({ id }) => id === place.id);
  return place.kind !== 'city' || region === undefined || isUnique() ? name : `${name} (${region})`;
}

/** Finds the districts and raions that a filter by district names, in any city; other places if there are none. */
export function findFilterDistricts(name: string): Place[] {
  const places = findDistricts(name);
  const districts = places.filter(({ kind }) => kind === 'district' || kind === 'raion');
  return districts.length > 0 ? districts : places;
}

/** Finds the regions that a filter by region names, with or without the word for region; other places if there are none. */
export function findFilterRegions(name: string): Place[] {
  const places = findPlaces(name);
  const regions = [...places, ...findRegions(name)].filter(({ kind }) => kind === 'region');
  return regions.length > 0 ? regions : preferLargePlaces(places);
}

/** Fields of a listing that name its place. */
export type PlaceFields = {
  city: string | null;
  district?: string | null;
  address?: string | null;
  /** Text of the listing. Regions in it decide between places of one name. */
  text?: string | null;
};

const PART_SEPARATOR_PATTERN = /[,;()/]|\s[-–—]\s/u;

/**
 * Returns the place that the fields of a listing name; several if they have the same name and nothing decides between
 * them; none if the name is unknown. The first name of the city field decides: names that are neither in this place nor
 * contain it are ignored.
 */
export function resolvePlaces(fields: PlaceFields): Place[] {
  const cityParts = findPlacesOfParts(fields.city);
  const districtParts = findPlacesOfParts(fields.district, findDistricts);
  const nameParts = [...cityParts, ...districtParts];
  // Streets often have the names of districts elsewhere.
  const addressParts = findPlacesOfParts(fields.address).map(selectLargePlaces);
  // The place of an unknown name is the region of its address.
  const mainPart =
    nameParts.find(namesCityOrDistrict) ?? nameParts[0] ?? addressParts.find(namesRegion);
  if (mainPart === undefined) return [];
  const parts = [...nameParts.filter((part) => part !== mainPart), ...addressParts];
  const namedPlaces = cityParts.includes(mainPart) ? preferLargePlaces(mainPart) : mainPart;
  const basePlaces = findOtherRegion(namedPlaces, parts) ?? namedPlaces;
  const relatedParts = parts.map((places) =>
    places.filter((place) => basePlaces.some((base) => areRelated(base, place))),
  );
  const supportingParts = relatedParts.filter((places) => places.length > 0);
  const candidates = selectBestPlaces([basePlaces, ...supportingParts]);
  const [candidate, ...otherCandidates] = candidates;
  if (candidate === undefined || otherCandidates.length === 0) {
    if (supportingParts.length > 0) return candidates;
    if (candidate?.kind === 'district') return candidates.filter(isDistinctive);
    return isSmallPlace(candidate) ? dropOutsideOfRegions(candidates, fields.text) : candidates;
  }
  // A district that occurs twice in the city does not make the city ambiguous.
  if (basePlaces.length === 1) return basePlaces;
  const placesInRegions = dropOutsideOfRegions(candidates, fields.text);
  return preferPopulousPlaces(placesInRegions.length > 0 ? placesInRegions : candidates);
}

const namesRegion = (places: Place[]) =>
  places.length === 1 && places.every(({ kind }) => kind === 'region' || kind === 'raion');

const namesCityOrDistrict = (places: Place[]) =>
  places.some(({ kind }) => kind === 'city' || kind === 'district');

/**
 * Returns a region that a part names if the places are small and none is in it. Then the place itself is unknown. Kyiv is
 * not in its region.
 */
function findOtherRegion(places: Place[], parts: Place[][]): Place[] | undefined {
  if (places.some((place) => place.kind !== 'district' && !isSmallPlace(place))) return undefined;
  return parts.find(
    (regions) =>
      regions.length > 0 &&
      regions.every(
        (region) => region.kind === 'region' && !places.some((place) => areRelated(place, region)),
      ),
  );
}

/** Population of cities whose districts are known by their name alone. */
const MIN_POPULATION_OF_KNOWN_DISTRICTS = 700_000;

/** Adjectives, and words that many cities or villages have as a name. */
const COMMON_NAME_PATTERN =
  /н(?:ий|ій)$|берег$|квартал$|^(?:центр|острів|перемога|тополя|парус|сокіл|основа|піски|воля|охота|космос|слобідка|пасічна|комунар|рогань|нові будинки|старе місто)$/u;

/** Returns whether a district is known without the name of its city. */
function isDistinctive(district: Place): boolean {
  const { population = 0 } = getAncestor(district, 'city') ?? {};
  const isOfLargeCity = population >= MIN_POPULATION_OF_KNOWN_DISTRICTS;
  return isOfLargeCity && !COMMON_NAME_PATTERN.test(normalizeText(district.names.uk));
}

/** Omits districts if a larger place has the same name. */
function preferLargePlaces(places: Place[]): Place[] {
  const largePlaces = selectLargePlaces(places);
  return largePlaces.length > 0 ? largePlaces : places;
}

const selectLargePlaces = (places: Place[]) => places.filter(({ kind }) => kind !== 'district');

const areRelated = (a: Place, b: Place) => a.path.includes(b.id) || b.path.includes(a.id);

const findPlacesOfParts = (text: string | null | undefined, find = findPlaces) =>
  (text ?? '')
    .split(PART_SEPARATOR_PATTERN)
    .map(find)
    .filter((places) => places.length > 0);

/** Returns the places that match the most parts, without places that contain another match. */
function selectBestPlaces(parts: Place[][]): Place[] {
  const candidates = [...new Set(parts.flat())];
  const countParts = (place: Place) =>
    parts.filter((places) => places.some(({ id }) => place.path.includes(id))).length;
  const maxCount = Math.max(...candidates.map(countParts));
  const bestPlaces = candidates.filter((place) => countParts(place) === maxCount);
  return bestPlaces.filter(
    (place) => !bestPlaces.some(({ id, path }) => id !== place.id && path.includes(place.id)),
  );
}

/** Omits places outside of the regions that a text names, if it names any. */
function dropOutsideOfRegions(places: Place[], text: string | null | undefined): Place[] {
  const regionIds = findRegionIds(text ?? '');
  return regionIds.size === 0
    ? places
    : places.filter(({ path }) => path.some((id) => regionIds.has(id)));
}

const isRegionWord = (word: string) => KINDS_BY_WORD.get(word)?.includes('region') === true;

/** Returns the IDs of the regions in a text, such as "Львівська обл." and "Львівщина". */
function findRegionIds(text: string): Set<number> {
  const words = normalizeText(text).split(' ');
  const regions = words
    .flatMap((word, index) => [
      ...lookUp(word),
      ...(isRegionWord(word) ? findPlaces(`${words[index - 1] ?? ''} ${word}`) : []),
    ])
    .filter(({ kind }) => kind === 'region');
  return new Set(regions.map(({ id }) => id));
}

/** Smaller places may have the name of villages that the gazetteer does not have. */
const MAX_POPULATION_OF_SMALL_PLACES = 20_000;

const isSmallPlace = (place: Place | undefined) =>
  place?.kind === 'city' &&
  (place.population ?? DEFAULT_POPULATION) <= MAX_POPULATION_OF_SMALL_PLACES;

/** The largest of several places is meant if it has this many times the population of the next one. */
const MIN_POPULATION_RATIO = 5;

/** Population of a place whose population is unknown; most are villages. */
const DEFAULT_POPULATION = 3000;

/** Selects a place that is much larger than all others of its name. Districts have no population. */
function preferPopulousPlaces(places: Place[]): Place[] {
  if (places.some(({ kind }) => kind !== 'city')) return places;
  const getPopulation = ({ population = DEFAULT_POPULATION }: Place) => population;
  const [largest, next] = places.toSorted((a, b) => getPopulation(b) - getPopulation(a));
  if (largest === undefined || next === undefined) return places;
  return getPopulation(largest) >= MIN_POPULATION_RATIO * getPopulation(next) ? [largest] : places;
}

/** Returns the cities and districts that meet a condition. */
export function listCitiesAndDistricts(meets: (place: Place) => boolean): Place[] {
  return [...getPlaceIndex().byId.values()].filter(
    (place) => (place.kind === 'city' || place.kind === 'district') && meets(place),
  );
}

function findByPrefix(prefix: string): Place[] {
  const { byKey, sortedKeys } = getPlaceIndex();
  const keys = sortedKeys.slice(
    findStart(sortedKeys, prefix),
    findStart(sortedKeys, `${prefix}\uFFFF`),
  );
  return keys.flatMap((key) => byKey.get(key) ?? []);
}

/** Returns the index of the first key that is not before a text. */
function findStart(sortedKeys: readonly string[], text: string): number {
  let [start, end] = [0, sortedKeys.length];
  while (start < end) {
    const middle = Math.floor((start + end) / 2);
    if ((sortedKeys[middle] ?? '') < text) start = middle + 1;
    else end = middle;
  }
  return start;
}

/**
 * Finds the cities, districts and regions with a name that begins with a text: names in this spelling before names in
 * another one, and the most populous places first. Words such as "м." before the name select its kind.
 */
export function findPlacesByPrefix(text: string, limit: number): Place[] {
  const prefix = createPlaceKey(text);
  const latinPrefix = createLatinKey(prefix);
  const kindWords = normalizeText(text).slice(0, -prefix.length).trim().split(' ');
  const namedKinds = kindWords.flatMap((word) => KINDS_BY_WORD.get(word) ?? []);
  const kinds = namedKinds.length > 0 ? namedKinds : ['city', 'district', 'region'];
  const getWeight = ({ kind, population = 0 }: Place) => (kind === 'region' ? 1 : population);
  const places = [prefix, ...(latinPrefix.length >= 2 ? [latinPrefix] : [])].flatMap((start) =>
    findByPrefix(start)
      .filter(({ kind }) => kind !== 'raion' && kinds.includes(kind))
      .toSorted((a, b) => getWeight(b) - getWeight(a)),
  );
  return [...new Set(places)].slice(0, limit);
}
