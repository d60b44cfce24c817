import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, test } from 'node:test';
import { formatResults } from '../src/commands/search.ts';
import { requestCollector } from '../src/http.ts';
import { closedAddress, type Played, type Received, startServer } from './support/loopback.ts';
import { oselya } from './support/oselya.ts';

let played: Played;
let received: Received;
const { url } = await startServer((request) => {
  received = request;
  return played;
});

async function search(answer: Played, env: Record<string, string> = {}) {
  played = answer;
  const args = ['search', '--similar', 'дім', '--limit', '3', '--json'];
  return oselya(args, { COLLECTOR_URL: url, ...env });
}

test('the question reaches the API, and --json prints the whole answer', async () => {
  const body = { items: [], took_ms: 1 };
  const { status, stdout } = await search({ body });
  assert.equal(status, 0);
  assert.deepEqual(JSON.parse(stdout), body);
  assert.equal(`${received.method} ${received.path}`, 'POST /api/v1/search/similar');
  assert.equal(received.headers['content-type'], 'application/json');
  assert.equal(received.headers.authorization, undefined);
  assert.deepEqual(received.body, { query: 'дім', limit: 3 });

  await search({ body }, { COLLECTOR_URL: `${url}/collector/`, COLLECTOR_API_KEY: 'oselya_1_x' });
  assert.equal(received.path, '/collector/api/v1/search/similar');
  assert.equal(received.headers.authorization, 'Bearer oselya_1_x');
});

const rejections: [played: Played, expected: RegExp][] = [
  [
    { status: 429, body: { title: 'Too many requests', detail: 'Wait\n12 s.\u001B[2J' } },
    /^oselya: the collector rejected the search \(429\): Wait 12 s\.\[2J\n$/,
  ],
  [
    { status: 422, body: { title: 'No', errors: [{ path: 'query', message: 'is too long' }] } },
    /\(422\): query is too long\n$/,
  ],
  [{ status: 401, body: { title: 'API key needed' } }, /: API key needed: set COLLECTOR_API_KEY/],
  [{ status: 502, body: '<html>Bad gateway' }, /\(502\) without a reason: set COLLECTOR_URL/],
  ...['<html>Welcome', '{}', '{"items": [{"listing": {}}]}', ''].map((body): [Played, RegExp] => [
    { body },
    /is not a collector: set COLLECTOR_URL/,
  ]),
];
test('a rejected search and another server are one line each', async () => {
  for (const [answer, expected] of rejections) {
    const { status, stderr } = await search(answer);
    assert.equal(status, 1);
    assert.match(stderr, expected);
    assert.equal(stderr.trim().split('\n').length, 1);
  }
  const { stderr } = await search({}, { COLLECTOR_URL: await closedAddress() });
  assert.match(stderr, /cannot be reached \(ECONNREFUSED\): start it with npm start, or set/);
});

test('an endless answer is not read to its end', async () => {
  const closed = Promise.withResolvers<void>();
  let sentMiB = 0;
  const endless = createServer((_request, response) => {
    response.on('close', closed.resolve);
    const chunk = Buffer.alloc(1024 * 1024, ' ');
    const write = () => {
      do sentMiB += 1;
      while (!response.destroyed && response.write(chunk));
    };
    response.on('drain', write);
    write();
  }).listen(0, '127.0.0.1');
  after(() => endless.close());
  await once(endless, 'listening');
  const at = endless.address();
  const port = typeof at === 'object' ? at?.port : '';
  const address = { url: `http://127.0.0.1:${port}`, apiKey: undefined };
  assert.equal((await requestCollector(address, '/')).body, undefined);
  await closed.promise;
  assert.ok(sentMiB > 64 && sentMiB < 128, `${sentMiB} MiB`);
});

const listing = {
  listing_id: 7,
  title: 'Затишна квартира біля парку',
  summary: 'Двокімнатна квартира.',
  description: 'Продам квартиру.',
  price: 62000,
  currency: 'USD',
  city: 'Львів',
  rooms: 2,
  area_total: 54.5,
};
const bare = { price: null, currency: null, city: null, rooms: null, area_total: null };

async function firstLine(texts: { title: null; summary?: null; description?: string }) {
  return (await formatResults({ items: [{ listing: { ...listing, ...texts } }] })).split('\n')[0];
}

test('a found listing is two lines, and the last line tells how many there are', async () => {
  assert.equal(
    await formatResults({
      items: [{ listing, rank: 0.10712 }],
      total: { value: 3, relation: 'eq' },
    }),
    `#7    Затишна квартира біля парку
      62 000 USD · Львів · 2 rooms · 54,5 m² · rank 0.107
3 found, 1 shown`,
  );
});

test('the nearest come with their distance', async () => {
  const items = [{ listing: { ...listing, ...bare, rooms: 1 }, distance: 0.5423 }];
  assert.equal(
    await formatResults({ items }),
    '#7    Затишна квартира біля парку\n      1 room · distance 0.542\nthe 1 nearest',
  );
});

test('a summary, or the beginning of the description, stands for a missing title', async () => {
  assert.equal(await firstLine({ title: null }), '#7    Двокімнатна квартира.');
  const long = await firstLine({ title: null, summary: null, description: 'дім🏡'.repeat(10_000) });
  assert.equal(long, `#7    ${'дім🏡'.repeat(22)}д…`);
});

test('nothing found, and more found than ranked, are said so', async () => {
  assert.equal(await formatResults({ items: [], total: { value: 0, relation: 'eq' } }), '0 found');
  assert.equal(await formatResults({ items: [] }), '0 found');
  const many = await formatResults({
    items: [{ listing }],
    total: { value: 5000, relation: 'gte' },
  });
  assert.match(many, /^at least 5000 found, 1 shown$/m);
});

test('no text of a listing acts on the terminal', async () => {
  const evil = 'a\u001B]0;owned\u0007\nb';
  const odd = { ...listing, title: evil, city: evil, currency: evil };
  const text = await formatResults({ items: [{ listing: odd }] });
  assert.equal(text.split('\n').length, 3);
  assert.doesNotMatch(text.replaceAll('\n', ''), /\p{Cc}/u);
});
