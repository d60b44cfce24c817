import { isDeepStrictEqual } from 'node:util';
import type { Payload } from '../payload/schema.ts';
import { instantOf } from '../payload/instant.ts';
import { plainText } from '../payload/plain.ts';
import { type FactKey, MODEL_FACTS, SHARED_FACTS } from '../listings/facts.ts';
import type { Facts } from './facts.ts';

/** A listing as one payload makes it: what is missing in it is null. */
export type ListingState = ReturnType<typeof listingState>;

/** Makes a listing's state, under the names of its columns, of the payload and the merged facts. */
export function listingState(payload: Payload, facts: Facts) {
  return {
    url: payload.url ?? null,
    title: facts.title ?? null,
    description: plainText(payload.description),
    summary: facts.summary ?? null,
    language: facts.language ?? null,
    deal_type: facts.deal_type ?? null,
    property_type: facts.property_type ?? null,
    price: facts.price ?? null,
    currency: facts.currency ?? null,
    city: facts.city ?? null,
    district: facts.district ?? null,
    address: facts.address ?? null,
    rooms: facts.rooms ?? null,
    area_total: facts.area_total ?? null,
    area_living: facts.area_living ?? null,
    area_kitchen: facts.area_kitchen ?? null,
    floor: facts.floor ?? null,
    floors_total: facts.floors_total ?? null,
    latitude: payload.latitude ?? null,
    longitude: payload.longitude ?? null,
    contact_name: facts.contact_name ?? null,
    phones: facts.phones ?? [],
    features: facts.features,
    attributes: payload.attributes ?? {},
    // RFC 3339 allows time zones that PostgreSQL does not know; in UTC there is none.
    published_at:
      payload.published_at === undefined ? null : instantOf(payload.published_at).toISOString(),
  } satisfies Record<FactKey, unknown>;
}

/** The facts that a state was made of, beside what its payload alone says. */
export function factsOf(state: Readonly<Record<FactKey, unknown>>): Facts {
  const known = [...SHARED_FACTS, ...MODEL_FACTS].filter((key) => state[key] !== null);
  // They were facts when the state was made of them.
  return Object.fromEntries(known.map((key) => [key, state[key]])) as Facts;
}

/** What a listing said before and says now, by the names of the facts. Contract 4, Listings. */
export type Changes = Record<string, { from: unknown; to: unknown }>;

/** What differs between two states, among some facts; one that the earlier state does not know is left out. */
export function diffStates(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
  keys: readonly string[],
): Changes {
  const changes: Changes = {};
  for (const key of keys) {
    const [from, to] = [before[key], after[key]];
    if (from !== undefined && !isDeepStrictEqual(from, to)) changes[key] = { from, to };
  }
  return changes;
}
