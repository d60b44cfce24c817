import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import { createApiKeys } from '../../../src/access/api-keys.ts';
import type { Payload } from '../../../src/payload/schema.ts';
import { createIngest } from '../../../src/ingest/service.ts';
import { createProcessForm } from '../../../src/ingest/with-images/service.ts';
import { picture } from '../../images/pictures.ts';
import { startCollector } from '../../support/collector.ts';
import { openDatabase, rawRecord, store } from '../../support/database.ts';
import { documentedAnswers } from '../../support/documented-answers.ts';
import { type FormFile, formOf, sendForm, temporaryFiles } from '../../support/form.ts';
import { startModelServer } from '../../support/model-server.ts';
import { payloadOf } from '../../support/payload.ts';
import { log } from '../../support/pipeline.ts';
import { until } from '../../support/until.ts';

const database = await openDatabase();
const { db } = database;
const folder = await mkdtemp(join(tmpdir(), 'oselya-form-'));
after(() => rm(folder, { recursive: true, force: true }));
// No worker: whatever is processed here was processed inline.
const start = (env: Record<string, string> = {}) =>
  startCollector(database, { DATA_DIR: folder, COLLECTOR_WORKER: 'false', ...env });
const collector = await start({ COLLECTOR_INGEST_PER_MINUTE: '0' });
const send = (form: FormData | string | undefined, headers?: Record<string, string>) =>
  sendForm(collector.url, form, headers);

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const file = async (name: string, colour: string): Promise<FormFile> => ({
  name,
  bytes: Uint8Array.from(await picture('png', { colour })),
});
const [red, blue] = [await file('red.png', 'red'), await file('blue.png', 'blue')];
const bad: FormFile = { name: 'notes.txt', bytes: Uint8Array.from(Buffer.from('no picture')) };

const count = async () =>
  (
    await db
      .selectFrom('raw_data')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow()
  ).count;

afterEach(async () => {
  assert.deepEqual(await temporaryFiles(folder), [], 'a temporary file stayed');
});

test('a payload with pictures is processed before the answer, whichever comes first', async () => {
  for (const metadataLast of [false, true]) {
    const payload = payloadOf();
    const answer = await send(formOf(payload, [red, bad, red], { metadataLast }));
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    const { raw_id: rawId, listing_id: listingId, status, images } = answer.body;
    assert.equal(status, 'completed');
    const stored = { sha256: sha256(red.bytes), width: 64, height: 48 };
    assert.deepEqual(images, [
      { ...stored, duplicate: metadataLast },
      { error: 'It is no JPEG, PNG, WebP, AVIF or GIF' },
      { ...stored, duplicate: true },
    ]);
    const raw = (await collector.get(`/api/v1/raw/${rawId}`)).json<{
      status: string;
      attempts: number;
      listing_id: number;
      stages: { stage: string }[];
    }>();
    assert.deepEqual([raw.status, raw.attempts, raw.listing_id], ['completed', 1, listingId]);
    assert.equal(raw.stages.length, 8);
    const shown = (await collector.get(`/api/v1/listings/${listingId}/images`)).json<
      { sha256: string | null; described_by: string | null; prompt_version: string | null }[]
    >();
    const described = [stored.sha256, 'mock', 'image-description.v1'];
    assert.deepEqual(
      shown.map((one) => [one.sha256, one.described_by, one.prompt_version]),
      [described, [null, null, null], described],
    );
    assert.equal((await collector.get(`/api/v1/images/${stored.sha256}`)).status, 200);
  }
});

test('metadata may be a JSON part or a file of its own; pictures win over addresses', async () => {
  const payload = payloadOf({ image_urls: ['http://127.0.0.1:9/never-asked.png'] });
  const form = formOf('', [blue]);
  form.delete('metadata');
  const json = new Blob([`\uFEFF${JSON.stringify(payload)}`], { type: 'application/json' });
  form.append('metadata', json, 'metadata.json');
  const answer = await send(form);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  assert.deepEqual(
    answer.body.images.map((one) => one.sha256),
    [sha256(blue.bytes)],
  );
});

test('without pictures those that the payload names are fetched, and bad ones told', async () => {
  const form = formOf(payloadOf({ image_urls: ['http://127.0.0.1:9/private.png'] }), []);
  // What browsers send where no file was chosen.
  form.append('images', new Blob([]), '');
  const answer = await send(form);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  assert.match(answer.body.images[0]?.error ?? '', /private or reserved/);
});

test('the same payload with the same pictures needs no model; other pictures replace them', async () => {
  const payload = payloadOf();
  const first = await send(formOf(payload, [red]));
  const again = await send(formOf(payload, [red]));
  assert.deepEqual(again.body.images, [{ ...first.body.images[0], duplicate: true }]);
  const stages = (await rawRecord(db, again.body.raw_id)).stages;
  assert.deepEqual(
    stages.map(({ stage, outcome }) => [stage, outcome]),
    [['load', 'unchanged']],
  );
  const other = await send(formOf(payload, [blue]));
  assert.equal(other.body.listing_id, first.body.listing_id);
  assert.deepEqual(
    other.body.images.map((one) => one.sha256),
    [sha256(blue.bytes)],
  );
});

test('an idempotency key gives the earlier outcome, and refuses other content', async () => {
  const payload = payloadOf();
  const headers = { 'idempotency-key': 'with-images-1' };
  const first = await send(formOf(payload, [red]), headers);
  const records = await count();
  assert.deepEqual((await send(formOf(payload, [red]), headers)).body, first.body);
  for (const form of [formOf(payload, [blue]), formOf(payload, []), formOf(payloadOf(), [red])]) {
    const answer = await send(form, headers);
    assert.deepEqual([answer.status, answer.body.code], [409, 'idempotency_conflict']);
  }
  // The newer payload has other pictures; the earlier one's outcome is still its own.
  await send(formOf({ ...payload, price: 1 }, [blue]));
  assert.deepEqual((await send(formOf(payload, [red]), headers)).body, first.body);
  assert.equal(await count(), records + 1);
});

/** Ends a payload so, within its request or in the queue. */
const setFailed = (rawId: number, inline: boolean) =>
  db
    .updateTable('raw_data')
    .set({
      status: 'failed',
      inline,
      error: JSON.stringify({ code: 'model_failed', message: 'No.' }),
    })
    .where('id', '=', rawId)
    .execute();

test('a key means the same on both routes, and the answer tells how its payload stands', async () => {
  const keyed = { 'idempotency-key': 'both-routes' };
  const plain = async (payload: Payload) => {
    const answer = await collector.post('/api/v1/ingest', payload, keyed);
    const { raw_id: rawId, status } = answer.json<{ raw_id: number; status: string }>();
    return { status, rawId, isNew: !answer.headers.has('idempotent-replayed') };
  };

  const done = payloadOf();
  const { body, headers } = await send(formOf(done, []), keyed);
  assert.equal(headers.has('idempotent-replayed'), false);
  const known = { status: 'completed', rawId: body.raw_id, isNew: false };
  assert.deepEqual(await plain(done), known);
  assert.ok((await send(formOf(done, []), keyed)).headers.has('idempotent-replayed'));
  for (const form of [formOf(done, [red]), formOf({ ...done, price: 1 }, [])]) {
    assert.equal((await send(form, keyed)).body.code, 'idempotency_conflict');
  }

  // What failed within its request cannot be done again but by sending it again.
  await setFailed(body.raw_id, true);
  const again = await plain(done);
  assert.deepEqual([again.status, again.isNew], ['pending', true]);
  assert.notEqual(again.rawId, body.raw_id);

  // What failed in the queue can be put back there.
  assert.equal((await send(formOf(done, []), keyed)).body.code, 'still_processing');
  await setFailed(again.rawId, false);
  const failed = { status: 'failed', rawId: again.rawId, isNew: false };
  assert.deepEqual(await plain(done), failed);
  assert.equal((await send(formOf(done, []), keyed)).body.code, 'model_failed');
});

test('each way to fail has its status, and the OpenAPI document names it', async () => {
  const documented = await documentedAnswers(collector, '/api/v1/ingest/with-images');
  const { store: ingest } = createIngest({ db, onAccepted: () => undefined, log });
  const processed = (end: object) =>
    createProcessForm({
      db,
      store: ingest,
      leaseMs: 60_000,
      jobs: {
        async run({ rawId }) {
          await db.updateTable('raw_data').set(end).where('id', '=', rawId).execute();
          return 'lost';
        },
      },
    })({ payload: payloadOf(), files: [] }, undefined, () => undefined);
  const ends: [status: number, code: string, raw: 'invalid' | 'failed' | 'processing'][] = [
    [422, 'not_a_listing', 'invalid'],
    [502, 'model_failed', 'failed'],
    [503, 'stage_timed_out', 'failed'],
    [503, 'interrupted', 'failed'],
    [503, 'lease_lost', 'failed'],
    [500, 'internal_error', 'failed'],
    // Its claim is others' now.
    [503, 'lease_lost', 'processing'],
  ];
  for (const [status, code, raw] of ends) {
    const error = JSON.stringify({ code, message: 'Why.' });
    await assert.rejects(processed({ status: raw, error }), { status, code });
    assert.ok(documented[status]?.includes(code), code);
  }
  assert.deepEqual(documented, {
    200: [],
    400: ['malformed_request'],
    401: ['unauthorized'],
    403: ['cross_site_request', 'forbidden'],
    409: ['idempotency_conflict', 'still_processing'],
    413: ['body_too_large'],
    415: ['unsupported_media_type'],
    421: ['unknown_host'],
    422: ['not_a_listing', 'validation_failed'],
    429: ['rate_limited'],
    500: ['ingest_failed', 'internal_error'],
    502: ['model_failed'],
    503: [
      'disk_low',
      'interrupted',
      'lease_lost',
      'model_unavailable',
      'stage_timed_out',
      'uploads_busy',
    ],
  });
});

test('of two with one key at the same moment one is processed, and the other told to wait', async () => {
  const payload = payloadOf();
  const headers = { 'idempotency-key': 'with-images-2' };
  const answers = await Promise.all([1, 2, 3].map(() => send(formOf(payload, [red]), headers)));
  const done = answers.filter(({ status }) => status === 200);
  const waiting = answers.filter(({ status }) => status !== 200);
  assert.equal(new Set(done.map(({ body }) => body.raw_id)).size, 1);
  for (const { status, body, headers: sent } of waiting) {
    assert.deepEqual([status, body.code, sent.get('retry-after')], [409, 'still_processing', '5']);
  }
  const later = await send(formOf(payload, [red]), headers);
  assert.equal(later.body.raw_id, done[0]?.body.raw_id);
});

test('what is no property listing is 422 with the reason, and its pictures are not kept', async () => {
  const payload = payloadOf({
    title: 'Продам велосипед',
    description: 'Продам велосипед гірський, 21 швидкість. Ціна 8000 грн.',
  });
  const answer = await send(formOf(payload, [await file('bike.png', 'maroon')]));
  assert.deepEqual([answer.status, answer.body.code], [422, 'not_a_listing']);
  const rawId = Number(/raw_id (\d+)/.exec(answer.body.detail)?.[1]);
  const raw = await rawRecord(db, rawId);
  assert.equal(raw.status, 'invalid');
  const retry = await collector.post(`/api/v1/admin/raw/${rawId}/retry`);
  assert.deepEqual([retry.status, retry.json<{ code: string }>().code], [409, 'not_retryable']);
  assert.match(retry.text, /came with its pictures/);
  const all = await collector.post('/api/v1/admin/raw/retry', { status: 'invalid' });
  assert.deepEqual(all.json(), { retried: 0 });
});

test('a refused form says what is wrong, and stores nothing', async () => {
  const payload = payloadOf();
  const two = formOf(payload, [red]);
  two.append('metadata', JSON.stringify(payload));
  const unknown = formOf(payload, []);
  unknown.append('note', 'hello');
  const noFile = formOf(payload, []);
  noFile.append('images', 'just text');
  const noMetadata = formOf(payload, [red]);
  noMetadata.delete('metadata');
  const many = formOf(
    payload,
    Array.from({ length: 51 }, () => bad),
  );
  const huge = { name: 'вид з вікна.png', bytes: new Uint8Array(50 * 1024 * 1024 + 1) };

  const cases: [string, FormData | string | undefined, number, RegExp][] = [
    ['two fields', two, 422, /metadata.*once only/],
    ['an unknown field', unknown, 422, /note.*is unknown: send/],
    ['text for a file', noFile, 422, /images.*must be files/],
    ['no metadata', noMetadata, 422, /metadata.*is missing: send/],
    ['an empty form', new FormData(), 422, /metadata.*is missing: send/],
    ['too many files', many, 422, /at most 50 files.*notes\.txt.*one too many/],
    ['a large file', formOf(payload, [huge]), 413, /вид з вікна\.png.*larger than 50 MB/],
    ['no JSON', formOf('{"source_slug": ', [red]), 400, /"metadata\\" holds no well-formed JSON/],
    ['no metadata in the field', formOf('', [red]), 400, /no well-formed JSON/],
    ['a prototype', formOf('{"__proto__": {}}', [red]), 400, /no well-formed JSON/],
    ['large metadata', formOf('x'.repeat(1024 * 1024 + 1), []), 413, /metadata.*larger than 1 MB/],
    ['an unknown key', formOf('{"colour":"red"}', []), 422, /\\"colour\\" is unknown/],
    ['a bad value', formOf({ ...payload, currency: 'XQQ' }, [red]), 422, /metadata\/currency/],
    ['text', 'hello', 415, /Send multipart\/form-data with a field/],
    ['no body', undefined, 415, /Send multipart\/form-data with a field/],
  ];
  const records = await count();
  for (const [name, form, status, reason] of cases) {
    const answer = await send(form);
    const text = JSON.stringify(answer.body);
    assert.equal(answer.status, status, `${name}: ${text}`);
    assert.match(text, reason, name);
    assert.deepEqual(await temporaryFiles(folder), [], name);
  }
  const json = await collector.post('/api/v1/ingest/with-images', payload);
  assert.equal(json.status, 415);
  assert.equal(await count(), records);
});

test('the rate of the source, the key and its sources are those of the ingest', async () => {
  await using guarded = await start({
    COLLECTOR_AUTH: 'required',
    COLLECTOR_INGEST_PER_MINUTE: '2',
  });
  const keys = createApiKeys({ db });
  const made = async (scope: 'ingest' | 'search', sources?: string[]) => {
    const options = { name: 'k', scopes: [scope], ...(sources === undefined ? {} : { sources }) };
    return { authorization: `Bearer ${(await keys.create(options)).key}` };
  };
  const as = async (payload: Parameters<typeof formOf>[0], headers = {}) => {
    const { status, body } = await sendForm(guarded.url, formOf(payload, [red]), headers);
    return [status, body.code ?? body.status];
  };
  const own = await made('ingest', ['own']);
  assert.deepEqual(await as(payloadOf()), [401, 'unauthorized']);
  assert.deepEqual(await as(payloadOf(), await made('search')), [403, 'forbidden']);
  assert.deepEqual(await as(payloadOf(), own), [403, 'forbidden']);
  assert.deepEqual(await as(payloadOf({ source_slug: 'own' }), own), [200, 'completed']);
  const plain = await guarded.post('/api/v1/ingest', payloadOf({ source_slug: 'own' }), own);
  assert.equal(plain.status, 202);
  assert.deepEqual(await as(payloadOf({ source_slug: 'own' }), own), [429, 'rate_limited']);
});

test('a payload in the queue is not overtaken, nor does it overwrite what came later', async () => {
  const older = payloadOf({ price: 50_000, currency: 'USD' });
  const newer = { ...older, price: 48_000 };
  const rawId = await store(db, older);
  const answer = await send(formOf(newer, [red]));
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  await using _ = await start({ COLLECTOR_WORKER: 'true' });
  const raw = await until('the older payload', async () => {
    const record = await rawRecord(db, rawId);
    return record.status === 'completed' && record;
  });
  assert.equal(raw.stages.at(-1)?.outcome, 'superseded');
  const address = `/api/v1/listings/${answer.body.listing_id}`;
  assert.equal((await collector.get(address)).json<{ price: number }>().price, 48_000);
  const shown = (await collector.get(`${address}/images`)).json<{ sha256: string }[]>();
  assert.deepEqual(
    shown.map((one) => one.sha256),
    [sha256(red.bytes)],
  );
});

test('a disk without room is 503 before anything is read', async () => {
  await using full = await start({ MIN_FREE_DISK_MB: String(2 ** 40) });
  const records = await count();
  const { status, headers, body } = await sendForm(full.url, formOf(payloadOf(), [red]));
  assert.deepEqual([status, body.code, headers.get('retry-after')], [503, 'disk_low', '5']);
  assert.equal(await count(), records);
});

test('a model that fails is 502; when it is left alone, 503 and nothing stored', async () => {
  const server = await startModelServer();
  const env = {
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: server.url,
    MODEL_CHAT: 'm',
    MODEL_EMBEDDING: 'e',
    COLLECTOR_INGEST_PER_MINUTE: '0',
  };
  await using down = await start(env);
  server.state.up = false;
  const payload = payloadOf();
  const headers = { 'idempotency-key': 'failing' };
  const failed = await sendForm(down.url, formOf(payload, [red]), headers);
  assert.deepEqual([failed.status, failed.body.code], [502, 'model_failed']);
  // The breaker opens in the midst of the second one.
  const cut = await sendForm(down.url, formOf(payload, [red]), headers);
  assert.ok(['model_failed', 'interrupted'].includes(cut.body.code), cut.body.code);
  assert.notEqual(cut.body.detail, failed.body.detail, 'a failed one gives its key up');
  const records = await count();
  const refused = await sendForm(down.url, formOf(payload, [red]), headers);
  assert.deepEqual([refused.status, refused.body.code], [503, 'model_unavailable']);
  assert.ok(refused.headers.get('retry-after'));
  assert.equal(await count(), records);
  const statuses = await db
    .selectFrom('raw_data')
    .select(['status', 'inline'])
    .where('external_id', '=', payload.external_id)
    .execute();
  const failedInline = { status: 'failed', inline: true };
  assert.deepEqual(statuses, [failedInline, failedInline]);
  await server.close();
});
