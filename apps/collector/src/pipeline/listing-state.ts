import { isDeepStrictEqual } from 'node:util';
import { type Payload, parseTime } from '../ingest/payload.ts';
import {
  getEmptyValue,
  FIELD_NAMES,
  getField,
  type FieldValues,
  isFact,
  mapFields,
} from '../listing/fields.ts';
import { type ValueProvider, getProvider, type Origins } from '../listing/provenance.ts';
import { findPropertyType } from '../listing/property-types.ts';
import { getPlaceKeys, joinNames, type PlaceColumns } from '../places/listing-place.ts';
import { truncateText, normalizeText, toPlainText } from '../text.ts';
import type { Facts } from './merge.ts';

export type ListingState = FieldValues;

/** Builds the column values of a listing from a payload and its merged facts. */
export function buildListingState(payload: Payload, facts: Facts): ListingState {
  const sources: Record<'payload' | 'facts', Partial<Record<string, unknown>>> = { payload, facts };
  const state = mapFields(FIELD_NAMES, (name) => {
    const { kind } = getField(name);
    const value = sources[isFact(name) ? 'facts' : 'payload'][name];
    if (value === undefined) return getEmptyValue(name);
    // Convert to UTC: RFC 3339 allows time zone offsets that PostgreSQL rejects.
    if (typeof value === 'string' && kind === 'time') return parseTime(value).toISOString();
    return typeof value === 'string' && kind === 'text' ? toPlainText(value) : value;
  });
  // The field schemas have validated the payload and the facts.
  return state as ListingState;
}

/** Builds the columns of a listing from its state and its place, with those that follow from them. */
export function buildListingRow(state: ListingState, place: PlaceColumns) {
  return {
    ...state,
    ...place,
    ...getPlaceKeys(state),
    search_text: buildSearchText(state, place.place_text),
  };
}

export type ListingRow = ReturnType<typeof buildListingRow>;

export type StoredState = Readonly<Record<string, unknown>>;

/** Resolves the property type of a stored state, so that a word which an earlier version stored is not a change. */
export function resolveStoredState(state: StoredState): StoredState {
  const { property_type: word } = state;
  return typeof word === 'string'
    ? { ...state, property_type: findPropertyType(word) ?? null }
    : state;
}

/** Old and new listing values by field. Contract 4, Listings. */
export type Changes = Record<string, { from: unknown; to: unknown }>;

/** Names of changes in snapshots: the compared fields, and the images. */
export const TRACKED_FIELDS = [
  ...FIELD_NAMES.filter((name) => getField(name).comparison !== 'ignored'),
  'pictures',
];

/** Returns the fields that differ between two states. Ignores fields that the earlier state lacks. */
export function diffStates(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
  names: readonly string[],
): Changes {
  const changes: Changes = {};
  for (const name of names) {
    const [from, to] = [before[name], after[name]];
    if (from !== undefined && !isDeepStrictEqual(from, to)) changes[name] = { from, to };
  }
  return changes;
}

/**
 * Returns whether changes are more than the model's wording, which differs between extractions.
 * @param earlierTitleProvider Provider of the title in the previous snapshot. Null if unknown or without a title.
 */
export function isMaterialChange(
  changes: Changes,
  origins: Origins,
  earlierTitleProvider: ValueProvider | null,
): boolean {
  const modelWordedFields = FIELD_NAMES.filter((name) => {
    const { comparison, provider } = getField(name);
    if (comparison === undefined || provider === 'model') return comparison !== undefined;
    return getProvider(origins[name]) === 'model' && earlierTitleProvider !== 'source';
  });
  return Object.keys(changes).some((name) => !modelWordedFields.some((field) => field === name));
}

/** Maximum length, because PostgreSQL rejects search vectors above 1 MiB. A character takes up to 6 bytes of one. */
const MAX_SEARCH_TEXT_LENGTH = 150_000;

/**
 * Returns the normalized text of a listing for full-text search.
 * @param placeText City and district as written, which are found like their canonical names.
 */
export function buildSearchText(
  state: Partial<ListingState>,
  placeText: string | null = null,
): string {
  const texts = FIELD_NAMES.filter((name) => getField(name).isSearched).flatMap(
    (name) => state[name] ?? [],
  );
  const { city = null, district = null } = state;
  if (placeText !== null && placeText !== joinNames({ city, district })) texts.push(placeText);
  return truncateText(normalizeText(texts.join('\n')), MAX_SEARCH_TEXT_LENGTH);
}
