import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { DIMENSIONS } from './database.ts';

const extraction = {
  is_listing: true,
  reason: null,
  language: 'uk',
  title: 'Квартира',
  summary: 'Квартира у Львові.',
  deal_type: 'sale',
  property_type: 'apartment',
  price: 62_000,
  currency: 'USD',
  city: 'Львів',
  district: null,
  address: null,
  rooms: 2,
  area_total: 54,
  area_living: null,
  area_kitchen: null,
  floor: 3,
  floors_total: 5,
  contact_name: null,
  phones: [],
  features: [],
};

/** Answers a request in another way, or not at all. */
export type Interference = (response: ServerResponse) => void;

/** A model server that a test can take away, have misbehave, and bring back. */
export async function startModelServer() {
  const state: { up: boolean; requests: number; interfere?: Interference | undefined } = {
    up: true,
    requests: 0,
  };
  const server = createServer((request, response) => {
    void (async () => {
      const body = (await json(request)) as { input?: string[] };
      state.requests += 1;
      if (state.interfere !== undefined) return state.interfere(response);
      const answer = request.url?.endsWith('/embeddings')
        ? {
            data: body.input?.map((_, index) => ({
              index,
              embedding: Array.from({ length: DIMENSIONS }, (__, n) => n + 1),
            })),
            usage: { prompt_tokens: 1 },
          }
        : {
            id: '1',
            created: 1,
            model: 'test',
            choices: [
              {
                index: 0,
                finish_reason: 'stop',
                message: { role: 'assistant', content: JSON.stringify(extraction) },
              },
            ],
          };
      response.writeHead(state.up ? 200 : 503, { 'content-type': 'application/json' });
      response.end(JSON.stringify(state.up ? answer : { error: { message: 'overloaded' } }));
    })();
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    state,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
