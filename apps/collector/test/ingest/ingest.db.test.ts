import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { createApiKeyStore } from '../../src/access/api-keys.ts';
import { createIngest } from '../../src/ingest/store.ts';
import { startCollector } from '../support/collector.ts';
import {
  countPayloads,
  openDatabase,
  readRawRecord,
  createPayload,
  log,
  updateRawRecord,
} from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const settings = { COLLECTOR_WORKER: 'false' };
const unlimitedCollector = await startCollector(database, {
  ...settings,
  COLLECTOR_INGEST_PER_MINUTE: '0',
});
const limitedCollector = await startCollector(database, {
  ...settings,
  COLLECTOR_INGEST_PER_MINUTE: '3',
});

type AcceptedBody = { raw_id: number; status: string };
type ProblemBody = {
  code: string;
  status: number;
  detail: string;
  errors?: { path: string }[];
  request_id: string;
};

const ingest = (body: unknown, headers?: Record<string, string>) =>
  unlimitedCollector.post('/api/v1/ingest', body, headers);

/** Lists the sources that match a pattern. */
async function listSources(pattern: string): Promise<string[]> {
  const sources = db.selectFrom('sources').select('slug').where('slug', 'like', pattern);
  return (await sources.orderBy('slug').execute()).map(({ slug }) => slug);
}

test('A payload is accepted and stored as pending', async () => {
  const payload = createPayload({ source_slug: 'first-source', attributes: { a: [1, 'ї'] } });
  const response = await ingest(payload);
  assert.equal(response.status, 202);
  const acceptedBody = response.json<AcceptedBody>();
  assert.equal(acceptedBody.status, 'pending');
  const row = await readRawRecord(db, acceptedBody.raw_id);
  assert.deepEqual(row.payload, payload);

  const rawRecord = await unlimitedCollector.get(`/api/v1/raw/${acceptedBody.raw_id}`);
  assert.equal(rawRecord.status, 200);
  const { created_at, updated_at, ...otherFields } = rawRecord.json<Record<string, unknown>>();
  assert.deepEqual(otherFields, {
    raw_id: acceptedBody.raw_id,
    source_slug: 'first-source',
    external_id: payload.external_id,
    status: 'pending',
    attempts: 0,
    error: null,
    stages: [],
    listing_id: null,
    offers: null,
    model_usage: null,
    payload,
  });
  assert.equal(new Date(String(created_at)).toISOString(), created_at);
  assert.equal(new Date(String(updated_at)).toISOString(), updated_at);
  assert.deepEqual(await listSources('first-source'), ['first-source']);
});

const sendCompressed = (body: object, path = '/api/v1/ingest') =>
  fetch(unlimitedCollector.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    body: gzipSync(JSON.stringify(body)),
  });

test('A compressed payload is stored decompressed', async () => {
  const payload = createPayload({ description: 'Продам квартиру. '.repeat(2000) });
  const response = await sendCompressed(payload);
  assert.equal(response.status, 202);
  const { raw_id: rawId } = (await response.json()) as AcceptedBody;
  assert.deepEqual((await readRawRecord(db, rawId)).payload, payload);
  const largePayload = { ...payload, attributes: { padding: ' '.repeat(1024 * 1024) } };
  assert.equal((await sendCompressed(largePayload)).status, 413);
  assert.equal((await sendCompressed({ query: 'a' }, '/api/v1/search/fulltext')).status, 415);
});

const rejectedRequests: [string, () => ReturnType<typeof ingest>, number, string][] = [
  ['malformed JSON', () => ingest('{"source_slug":'), 400, 'malformed_request'],
  ['an unknown key', () => ingest({ ...createPayload(), x: 1 }), 422, 'validation_failed'],
  [
    'a NUL character',
    () => ingest(createPayload({ description: 'a\0' })),
    422,
    'validation_failed',
  ],
  [
    'a body above 1 MiB',
    () => ingest(createPayload({ attributes: { a: 'x'.repeat(1024 * 1024) } })),
    413,
    'body_too_large',
  ],
  [
    'another content type',
    () => ingest('a=b', { 'content-type': 'application/x-www-form-urlencoded' }),
    415,
    'unsupported_media_type',
  ],
  [
    'an empty idempotency key',
    () => ingest(createPayload(), { 'idempotency-key': '' }),
    422,
    'validation_failed',
  ],
];

test('Rejected requests are problems and store nothing', async () => {
  for (const [name, reject, status, code] of rejectedRequests) {
    const countBefore = await countPayloads(db);
    const response = await reject();
    assert.equal(response.status, status, `${name}: ${response.text}`);
    assert.match(response.headers.get('content-type') ?? '', /^application\/problem\+json/);
    assert.equal(response.json<ProblemBody>().code, code);
    assert.equal(await countPayloads(db), countBefore);
  }
});

test('Requests with one idempotency key store one record', async () => {
  const payload = createPayload();
  const headers = { 'idempotency-key': 'once "upon" a time' };
  const responses = await Promise.all(Array.from({ length: 10 }, () => ingest(payload, headers)));
  const ids = new Set(responses.map((response) => response.json<AcceptedBody>().raw_id));
  assert.equal(ids.size, 1);
  assert.ok(responses.every((response) => response.status === 202));
  const firstResponses = responses.filter(
    (response) => !response.headers.has('idempotent-replayed'),
  );
  assert.equal(firstResponses.length, 1, 'the other responses are marked as replayed');

  const [rawId] = ids;
  await updateRawRecord(db, Number(rawId), { status: 'completed' });
  const laterResponse = await ingest(payload, headers);
  assert.deepEqual(
    laterResponse.json(),
    { raw_id: rawId, status: 'pending' },
    'the response repeats the first one',
  );
  assert.equal(laterResponse.headers.get('raw-status'), 'completed');

  const otherResponse = await ingest({ ...payload, price: 5 }, headers);
  assert.equal(otherResponse.status, 409);
  assert.equal(otherResponse.json<ProblemBody>().code, 'idempotency_conflict');

  const otherSource = await ingest({ ...payload, source_slug: 'other' }, headers);
  assert.equal(otherSource.status, 202, 'keys of different sources are independent');
});

test('An idempotency key expires after 24 hours', async () => {
  const headers = { 'idempotency-key': 'daily' };
  const payload = createPayload();
  const firstId = (await ingest(payload, headers)).json<AcceptedBody>().raw_id;
  const created_at = new Date(Date.now() - 24 * 3_600_000 - 1000);
  await updateRawRecord(db, firstId, { created_at });
  const response = await ingest({ ...payload, price: 5 }, headers);
  assert.equal(response.status, 202);
  assert.notEqual(response.json<AcceptedBody>().raw_id, firstId);
});

const send = (source_slug: string, overrides = {}) =>
  limitedCollector.post('/api/v1/ingest', { ...createPayload({ source_slug }), ...overrides });

test('The rate limit applies to each source and does not count rejected payloads', async () => {
  for (let index = 0; index < 5; index += 1)
    assert.equal((await send('fast', { price: -1 })).status, 422);
  for (const remaining of ['2', '1', '0']) {
    const response = await send('fast');
    assert.equal(response.status, 202);
    assert.equal(response.headers.get('ratelimit-limit'), '3');
    assert.equal(response.headers.get('ratelimit-remaining'), remaining);
  }
  const response = await send('fast');
  assert.equal(response.status, 429);
  assert.equal(response.json<ProblemBody>().code, 'rate_limited');
  assert.match(
    response.json<ProblemBody>().detail,
    /^No more than 3 payloads of one source a minute: wait for \d+ s, then send it again, or raise COLLECTOR_INGEST_PER_MINUTE of the service\.$/,
  );
  const retryAfterSeconds = Number(response.headers.get('retry-after'));
  assert.ok(retryAfterSeconds >= 1 && retryAfterSeconds <= 60, `${retryAfterSeconds} s`);
  assert.equal((await send('slow')).status, 202);
});

test('A caller can create a limited number of sources a day and keeps sending for known sources', async () => {
  await using guarded = await startCollector(database, {
    ...settings,
    COLLECTOR_AUTH: 'required',
    COLLECTOR_NEW_SOURCES_PER_DAY: '2',
  });
  const keys = createApiKeyStore({ db });
  const newCaller = async (name: string) => {
    const { key } = await keys.create({ name, scopes: ['ingest'] });
    const headers = { authorization: `Bearer ${key}` };
    return {
      headers,
      send: async (source_slug: string, overrides = {}) =>
        guarded.post('/api/v1/ingest', createPayload({ source_slug, ...overrides }), headers),
    };
  };
  const [first, second] = [await newCaller('first'), await newCaller('second')];
  assert.equal((await first.send('made-up-0', { price: -1 })).status, 422);
  for (const source of ['made-up-1', 'first-source', 'made-up-2', 'made-up-1']) {
    assert.equal((await first.send(source)).status, 202, source);
  }
  const form = new FormData();
  form.set('metadata', JSON.stringify(createPayload({ source_slug: 'made-up-3' })));
  const withImages = await fetch(`${guarded.url}/api/v1/ingest/with-images`, {
    method: 'POST',
    body: form,
    headers: first.headers,
  });
  assert.equal(withImages.status, 429);
  const response = await first.send('made-up-3');
  assert.equal(response.status, 429);
  assert.equal(response.json<ProblemBody>().code, 'rate_limited');
  assert.match(
    response.text,
    /No more than 2 new sources .* a day: .*COLLECTOR_NEW_SOURCES_PER_DAY/,
  );
  const retryAfterSeconds = Number(response.headers.get('retry-after'));
  assert.ok(retryAfterSeconds > 3600 && retryAfterSeconds <= 86_400, `${retryAfterSeconds} s`);
  assert.deepEqual(await listSources('made-up-%'), ['made-up-1', 'made-up-2']);

  assert.equal((await second.send('made-up-3')).status, 202, 'another caller has its own');
  assert.equal((await first.send('made-up-3')).status, 202, 'and now it is known');
});

test('An unknown payload is 404, and an invalid id is 422', async () => {
  const missingResponse = await unlimitedCollector.get('/api/v1/raw/999999999');
  assert.equal(missingResponse.status, 404);
  assert.equal(missingResponse.json<ProblemBody>().code, 'raw_not_found');
  const ids = '0 -1 abc 1e400 9223372036854775808 0x1 1e2 +1 %201 1.0 01'.split(' ');
  for (const id of ids) {
    for (const path of [`raw/${id}`, `listings/${id}`, `listings/${id}/images`]) {
      const response = await unlimitedCollector.get(`/api/v1/${path}`);
      assert.equal(response.status, 422, path);
      assert.equal(response.json<ProblemBody>().code, 'validation_failed');
    }
    assert.equal((await unlimitedCollector.post(`/api/v1/admin/raw/${id}/retry`)).status, 422, id);
  }
  assert.equal((await unlimitedCollector.get('/api/v1/raw/9999999999999999')).status, 404);
});

test('A failed database is 500 without internal details', async () => {
  await db.schema.alterTable('raw_data').renameTo('raw_data_away').execute();
  const response = await ingest(createPayload());
  await db.schema.alterTable('raw_data_away').renameTo('raw_data').execute();
  assert.equal(response.status, 500);
  assert.equal(response.json<ProblemBody>().code, 'internal_error');
  assert.ok(!response.text.includes('raw_data'));
  const { text } = await unlimitedCollector.get('/metrics');
  assert.match(text, /collector_ingest_requests_total\{source="doshka",outcome="failed"\} 1\n/);
});

let acceptedCount = 0;
const groupingIngest = createIngest({ db, onAccepted: () => (acceptedCount += 1), log });
const accept = async (...request: Parameters<typeof groupingIngest.accept>) =>
  (await groupingIngest.accept(...request)).id;

async function readStored(source: string) {
  return db
    .selectFrom('raw_data')
    .select(['id', 'external_id', 'waits', 'payload'])
    .where('source_slug', '=', source)
    .orderBy('id')
    .execute();
}

const formatResults = (results: readonly PromiseSettledResult<number>[]) =>
  results.map((result) => (result.status === 'fulfilled' ? 'stored' : 'rejected'));

test('Equal idempotency keys within one group store one record', async () => {
  const source_slug = 'keys';
  const payload = createPayload({ source_slug });
  const earlierId = await accept(payload, 'known');
  const results = await Promise.allSettled([
    accept(payload, 'new'),
    accept(payload, 'new'),
    accept({ ...payload, price: 5 }, 'new'),
    accept(payload, 'known'),
    accept({ ...payload, price: 5 }, 'known'),
    accept(payload),
    accept(payload, 'another'),
    accept({ ...payload, source_slug: 'other-keys', price: 5 }, 'new'),
  ]);
  assert.deepEqual(formatResults(results), [
    'stored',
    'stored',
    'rejected',
    'stored',
    'rejected',
    'stored',
    'stored',
    'stored',
  ]);
  const ids = results.map((result) => (result.status === 'fulfilled' ? result.value : undefined));
  assert.equal(ids[0], ids[1]);
  assert.equal(ids[3], earlierId);
  assert.equal(new Set(ids.filter((id) => id !== undefined)).size, 5);
  for (const result of [results[2], results[4]]) {
    assert.equal(result?.status === 'rejected' && result.reason.code, 'idempotency_conflict');
  }
  assert.equal((await readStored(source_slug)).length, 4);
});

test('Payloads of one listing within a group keep their order, and all but the first wait', async () => {
  const payloads = [1, 2, 3].map((price) =>
    createPayload({ source_slug: 'order', external_id: 'same', price }),
  );
  const ids = await Promise.all(payloads.map((payload) => accept(payload)));
  const rows = await readStored('order');
  assert.deepEqual(
    rows.map(({ id, waits, payload }) => [id, waits, payload['price']]),
    ids.map((id, n) => [id, n > 0, n + 1]),
  );
});
