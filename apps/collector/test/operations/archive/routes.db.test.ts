import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startCollector } from '../../support/collector.ts';
import { openDatabase } from '../../support/database.ts';
import { payloadOf } from '../../support/payload.ts';
import { until } from '../../support/until.ts';
import { startSite } from './site.ts';

const database = await openDatabase();
const collector = await startCollector(database, { SSRF_ALLOW: '127.0.0.1' });
const state = { status: 200 };
const site = await startSite((_request, response) => {
  response.writeHead(state.status).end('a page');
});

type Result = { checked: number; archived: number; unreachable: number };

async function check(body?: object) {
  const answer = await collector.post('/api/v1/admin/archive-check', body);
  assert.equal(answer.status, 200, answer.text);
  return answer.json<Result>();
}

/** Sends a payload, waits for its end, and gives its listing. */
async function ingested(payload: object): Promise<number> {
  const { raw_id: id } = (await collector.post('/api/v1/ingest', payload)).json<{
    raw_id: number;
  }>();
  return until(`raw record ${id}`, async () => {
    const raw = (await collector.get(`/api/v1/raw/${id}`)).json<{
      status: string;
      listing_id: number;
    }>();
    return raw.status === 'completed' && raw.listing_id;
  });
}

const listing = async (id: number) =>
  (await collector.get(`/api/v1/listings/${id}`)).json<{ archived_at: string | null }>();

const found = async (query: string) =>
  (await collector.post('/api/v1/search/fulltext', { query }))
    .json<{ items: { listing: { listing_id: number } }[] }>()
    .items.map((item) => item.listing.listing_id);

test('a listing that is gone is archived, is not found, and comes back', async () => {
  const payload = payloadOf({ title: 'Будинок із садом', url: `${site.url}/house` });
  const id = await ingested(payload);
  assert.deepEqual(await check(), { checked: 1, archived: 0, unreachable: 0 });
  state.status = 410;
  assert.deepEqual(await check(), { checked: 1, archived: 0, unreachable: 0 });
  assert.deepEqual(await check({}), { checked: 1, archived: 0, unreachable: 0 });
  assert.equal((await listing(id)).archived_at, null, 'an hour has not passed');
  assert.deepEqual(await found('садом'), [id]);
  assert.deepEqual(await check({ min_interval_seconds: 0 }), {
    checked: 1,
    archived: 1,
    unreachable: 0,
  });
  assert.ok((await listing(id)).archived_at);
  assert.deepEqual(await found('садом'), []);

  // The same payload once more: nothing of it is new but that it is there.
  await ingested(payload);
  assert.equal((await listing(id)).archived_at, null);
  assert.deepEqual(await found('садом'), [id]);
  assert.equal((await check({ min_interval_seconds: 0 })).archived, 0, 'it begins anew');
  const history = (await collector.get(`/api/v1/listings/${id}/history`)).json<unknown[]>();
  assert.equal(history.length, 1, 'the archive is no change of the listing');
  const { text } = await collector.get('/metrics');
  assert.match(text, /collector_archive_checks_total\{outcome="archived"\} 1\n/);
});

test('an address that may not be asked is unreachable', async () => {
  await ingested(payloadOf({ source_slug: 'inside', url: 'http://192.168.7.7/flat' }));
  assert.deepEqual(await check({ source_slug: 'inside' }), {
    checked: 1,
    archived: 0,
    unreachable: 1,
  });
  assert.equal((await check({ source_slug: 'nobody' })).checked, 0);
});

test('wrong questions are refused', async () => {
  for (const body of [
    { limit: 0 },
    { limit: 1001 },
    { limit: '5' },
    { source_slug: 'No Slug' },
    { min_interval_seconds: -1 },
    { min_interval_seconds: 1e12 },
    { more: 1 },
    [],
  ]) {
    const answer = await collector.post('/api/v1/admin/archive-check', body);
    assert.equal(answer.status, 422, JSON.stringify(body));
  }
  assert.equal((await collector.post('/api/v1/admin/archive-check', '{"limit":')).status, 400);
});
