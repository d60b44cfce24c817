import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { answerParent } from '../../process/child.ts';

/** Requests that have come so far, and the most texts that one of them had to embed. */
export type Counts = { chat: number; embed: number; mostTexts: number };

/** The questions that the model server's process answers. */
export type ModelServer = {
  /** Starts to serve and gives the address for MODEL_BASE_URL. */
  start: (settings: { answerMs: number; dimensions: number }) => Promise<string>;
  /** What came since it was asked last. */
  counts: () => Counts;
};

let counts: Counts = { chat: 0, embed: 0, mostTexts: 0 };

/** What the model reads out of any listing. */
const EXTRACTION = {
  is_listing: true,
  reason: null,
  language: 'uk',
  title: 'Квартира',
  summary: 'Квартира в місті.',
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
  features: ['balcony'],
};

function chat() {
  counts.chat += 1;
  const message = { role: 'assistant', content: JSON.stringify(EXTRACTION) };
  return {
    model: 'bench',
    choices: [{ index: 0, finish_reason: 'stop', message }],
    usage: { prompt_tokens: 900, completion_tokens: 200 },
  };
}

async function start({ answerMs, dimensions }: { answerMs: number; dimensions: number }) {
  const vector = Array.from({ length: dimensions }, (_, nth) => Math.sin(nth + 1));

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = (await json(request)) as { input?: string[] };
    await sleep(answerMs);
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body.input === undefined ? chat() : embeddings(body.input)));
  }

  function embeddings(texts: readonly string[]) {
    counts.embed += 1;
    counts.mostTexts = Math.max(counts.mostTexts, texts.length);
    return {
      data: texts.map((_, index) => ({ index, embedding: vector })),
      usage: { prompt_tokens: 100 * texts.length },
    };
  }

  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

answerParent({
  start,
  counts() {
    const now = counts;
    counts = { chat: 0, embed: 0, mostTexts: 0 };
    return now;
  },
} satisfies ModelServer);
