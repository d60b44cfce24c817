import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atEnd, until } from '@oselya/testing';
import { createImage, startServer } from '../support/images.ts';
import { startBucket } from '../support/bucket.ts';
import { startCollector, formOf, sendForm } from '../support/collector.ts';
import { openDatabase, startModelServer, countByStatus, payloadOf } from '../support/pipeline.ts';

const JOBS = 10;

const database = await openDatabase();
const { db } = database;
const bucket = await startBucket();
const model = await startModelServer();
atEnd(model.close);
const bytes = Uint8Array.from(await createImage('png', { colour: 'teal' }));
const host = await startServer((_request, response) => response.end(bytes));

const collector = await startCollector(database, {
  ...bucket.env,
  MODEL_MODE: 'openai',
  MODEL_BASE_URL: model.url,
  MODEL_CHAT: 'm',
  MODEL_EMBEDDING: 'e',
  SSRF_ALLOW: '127.0.0.1',
  COLLECTOR_INGEST_PER_MINUTE: '0',
});

type Health = { status: string; checks: { disk: { status: string; image_store: string } } };

const health = async () => (await collector.get('/health')).json<Health>();
const isAway = async () =>
  /^collector_image_store_away (\d)$/m.exec((await collector.get('/metrics')).text)?.[1] === '1';
/** Counts the probes of the store; an outage begins with the first. */
const tries = () => bucket.requests.filter((one) => one === 'PUT /images/probe').length;
const records = () => db.selectFrom('raw_data').selectAll().orderBy('id').execute();
const file = { name: 'teal.png', bytes };
const send = (headers = {}) => sendForm(collector.url, formOf(payloadOf(), [file]), headers);

test('An outage of the image store fails no job in the queue, and no text is read twice', async () => {
  assert.deepEqual((await health()).checks.disk.image_store, 'ok');
  assert.equal(await isAway(), false);
  bucket.state.isDown = true;
  for (let nth = 0; nth < JOBS; nth += 1) {
    const payload = payloadOf({ image_urls: [`${host.url}/${nth}`] });
    assert.equal((await collector.post('/api/v1/ingest', payload)).status, 202);
  }
  await until('the outage', () => tries() > 0);
  assert.equal(await isAway(), true);
  const { status, checks } = await health();
  assert.deepEqual(
    [status, checks.disk.status, checks.disk.image_store],
    ['degraded', 'degraded', 'away'],
  );
  await until('all that were begun to be back', async () => {
    const raws = await records();
    return raws.every((raw) => raw.status === 'pending' && raw.attempts === 0 && raw);
  });
  const { readings } = model.state;
  const before = tries();
  await until('another try', () => tries() > before);
  assert.equal(model.state.readings, readings);
  assert.ok(readings < JOBS, `${readings} of ${JOBS} were begun`);
  assert.deepEqual(await countByStatus(db), { pending: JOBS, completed: 0, failed: 0 });

  bucket.state.isDown = false;
  await until('the end of the outage', async () => !(await isAway()));
  // Skips the wait of 45 s.
  await db.updateTable('raw_data').set({ retry_at: null }).execute();
  await until('all to be completed', async () => (await countByStatus(db)).completed === JOBS);
  const raws = await records();
  assert.ok(raws.every(({ attempts }) => attempts === 1));
  assert.equal(model.state.readings, JOBS, 'each text was read once');
  assert.equal(await isAway(), false);
  assert.equal((await health()).status, 'ok');
});

test('A request with images is 503 in an outage: the first leaves a failed record, later ones none', async () => {
  assert.equal((await send()).status, 200);
  const stored = (await records()).length;
  bucket.state.isDown = true;
  const headers = { 'idempotency-key': 'store-outage' };
  const cut = await send(headers);
  assert.deepEqual([cut.status, cut.body.code], [503, 'image_store_unavailable']);
  const last = (await records()).at(-1);
  assert.deepEqual([last?.status, last?.error?.code], ['failed', 'image_store_unavailable']);
  assert.equal((await records()).length, stored + 1);

  const rejected = await send(headers);
  assert.deepEqual([rejected.status, rejected.body.code], [503, 'image_store_unavailable']);
  assert.match(rejected.body.detail, /Nothing was stored/);
  assert.ok(rejected.headers.get('retry-after'));
  assert.equal((await records()).length, stored + 1);

  const [image] = await db.selectFrom('images').select('sha256').execute();
  const seen = await collector.get(`/api/v1/images/${image?.sha256}`);
  assert.deepEqual([seen.status, seen.json<{ code: string }>().code], [503, 'unavailable']);

  bucket.state.isDown = false;
  await until('its end', async () => (await health()).status === 'ok');
  assert.equal((await send(headers)).status, 200, 'a failed request frees its key');
  assert.equal((await collector.get(`/api/v1/images/${image?.sha256}`)).status, 200);
});
