import { startServer } from '@oselya/testing';
import type { Listing } from '../../src/collector/client.ts';
import { listingFields } from '../../src/collector/generated/openapi.ts';

/** Creates a listing with values in its main fields. */
export function listing(listingId: number, fields: Partial<Listing> = {}): Listing {
  return {
    // Fields without a value below are null.
    ...(Object.fromEntries(listingFields.map(({ name }) => [name, null])) as unknown as Listing),
    listing_id: listingId,
    source_slug: 'samples',
    external_id: String(listingId),
    title: `Оголошення ${listingId}`,
    description: 'Світла квартира біля парку.',
    language: 'uk',
    deal_type: 'rent',
    property_type: 'apartment',
    price: 14_000,
    currency: 'UAH',
    city: 'Львів',
    rooms: 2,
    area_total: 52,
    floor: 3,
    floors_total: 9,
    phones: [],
    features: [],
    attributes: {},
    archived_at: null,
    created_at: '2026-03-02T09:15:00.000Z',
    updated_at: '2026-03-02T09:15:00.000Z',
    ...fields,
  };
}

/** Starts a collector with scripted listings, whose answers follow the collector's OpenAPI document. */
export async function startScriptedCollector() {
  const collector = {
    url: '',
    listings: [] as Listing[],
    requests: [] as { path: string; body: unknown; authorization?: string; user?: unknown }[],
    /** Problem that replaces all answers; `silence` sends no answer. */
    failure: undefined as { status: number; title: string } | 'silence' | undefined,
  };
  const server = await startServer(({ method, path, body, headers }) => {
    const { authorization, 'x-on-behalf-of': user } = headers;
    collector.requests.push({ path, body, ...(authorization && { authorization }), user });
    const { failure, listings } = collector;
    if (failure === 'silence') return failure;
    if (failure !== undefined) return createProblemResponse(failure);
    if (method !== 'GET' || !path.includes('/listings/')) {
      const status = method === 'POST' && path.endsWith('/api-keys') ? 201 : 200;
      const items = listings.map((match) => ({ listing: match, rank: 1 }));
      const total = { value: listings.length, relation: 'eq' };
      return { status, body: { items, total, next_cursor: null, took_ms: 1 } };
    }
    const id = Number(path.split('/').at(-1));
    const match = listings.find(({ listing_id }) => listing_id === id);
    const notFound = { status: 404, title: 'No such listing', detail: 'It does not exist.' };
    return match === undefined ? createProblemResponse(notFound) : { body: match };
  });
  collector.url = server.url;
  return collector;
}

/** Creates the response of a failed request. RFC 9457. */
export const createProblemResponse = (body: { status: number; title: string }, headers = {}) => ({
  status: body.status,
  headers: { 'content-type': 'application/problem+json', ...headers },
  body: { type: 'about:blank', detail: '', code: 'scripted', request_id: 'r-1', ...body },
});
