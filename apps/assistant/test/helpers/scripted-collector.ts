import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { deferCleanup, listen } from '@oselya/testing';
import type { Listing } from '../../src/collector/client.ts';
import { listingFields } from '../../src/collector/generated/openapi.ts';

/** Creates a listing with values in its main fields. */
export function listing(listingId: number, fields: Partial<Listing> = {}): Listing {
  return {
    // All other fields are null.
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

type ReceivedRequest = { path: string; body: unknown; authorization: string | undefined };

/** Starts a collector with scripted listings, which answers as its OpenAPI document says. */
export async function startScriptedCollector() {
  const collector = {
    url: '',
    listings: [] as Listing[],
    requests: [] as ReceivedRequest[],
    /** Problem that replaces all answers; `silent` sends no answer. */
    failure: undefined as { status: number; title: string } | 'silent' | undefined,
  };
  const server = createServer((request, response) => void answer(request, response));
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    collector.requests.push({
      path: request.url ?? '',
      body: request.method === 'POST' ? await json(request) : undefined,
      authorization: request.headers.authorization,
    });
    const { failure, listings } = collector;
    if (failure === 'silent') return;
    const send = (status: number, body: object, type = 'application/json') => {
      response.writeHead(status, { 'content-type': type }).end(JSON.stringify(body));
    };
    if (failure !== undefined) return send(failure.status, failure, 'application/problem+json');
    if (request.method === 'POST') {
      const items = listings.map((match) => ({ listing: match, rank: 1 }));
      const total = { value: listings.length, relation: 'eq' };
      return send(200, { items, total, next_cursor: null, took_ms: 1 });
    }
    const id = Number(request.url?.split('/').at(-1));
    const match = listings.find(({ listing_id }) => listing_id === id);
    if (match !== undefined) return send(200, match);
    const notFound = { status: 404, title: 'No such listing', detail: 'It does not exist.' };
    send(404, notFound, 'application/problem+json');
  }
  deferCleanup(() => {
    server.closeAllConnections();
    server.close();
  });
  collector.url = `http://127.0.0.1:${await listen(server)}`;
  return collector;
}
