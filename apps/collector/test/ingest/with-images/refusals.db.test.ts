import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { createApiKeys } from '../../../src/access/api-keys.ts';
import type { RawStatus } from '../../../src/tables.ts';
import { createIngest } from '../../../src/ingest/service.ts';
import { createProcessForm } from '../../../src/ingest/with-images.ts';
import { rawRecord } from '../../support/database.ts';
import { documentedAnswers } from '../../support/documented-answers.ts';
import { formOf, sendForm, temporaryFiles } from '../../support/form.ts';
import { startModelServer } from '../../support/model-server.ts';
import { payloadOf } from '../../support/payload.ts';
import { log } from '../../support/pipeline.ts';
import { noPicture, openUploads, pictureFile } from './harness.ts';

const { db, folder, start, collector, send, count, untilNothingIsLeft } = await openUploads();

afterEach(untilNothingIsLeft);

const red = await pictureFile('red');

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
  const ends: [status: number, code: string, raw: RawStatus][] = [
    [422, 'not_a_listing', 'invalid'],
    [502, 'model_failed', 'failed'],
    [503, 'stage_timed_out', 'failed'],
    [503, 'interrupted', 'failed'],
    [503, 'lease_lost', 'failed'],
    [503, 'image_store_unavailable', 'failed'],
    [500, 'internal_error', 'failed'],
    // Its claim is others' now.
    [503, 'lease_lost', 'processing'],
    // It is back in the queue, as it came without pictures.
    [503, 'interrupted', 'pending'],
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
    408: ['request_too_slow'],
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
      'image_store_unavailable',
      'interrupted',
      'lease_lost',
      'model_unavailable',
      'stage_timed_out',
      'uploads_busy',
    ],
  });
});

test('what is no property listing is 422 with the reason, and its pictures are not kept', async () => {
  const payload = payloadOf({
    source_slug: 'bicycles',
    title: 'Продам велосипед',
    description: 'Продам велосипед гірський, 21 швидкість. Ціна 8000 грн.',
  });
  const answer = await send(formOf(payload, [await pictureFile('maroon')]));
  assert.deepEqual([answer.status, answer.body.code], [422, 'not_a_listing']);
  const { raw_id: rawId } = answer.body;
  const raw = await rawRecord(db, rawId);
  assert.equal(raw.status, 'invalid');
  const retry = await collector.post(`/api/v1/admin/raw/${rawId}/retry`);
  assert.deepEqual([retry.status, retry.json<{ code: string }>().code], [409, 'not_retryable']);
  assert.match(retry.text, /came with its images/);
  const filter = { status: 'invalid', source_slug: 'bicycles' };
  const all = await collector.post('/api/v1/admin/raw/retry', filter);
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
    Array.from({ length: 51 }, () => noPicture),
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
    ['no JSON', formOf('{"source_slug": ', [red]), 400, /"metadata\\" is no well-formed JSON/],
    ['no metadata in the field', formOf('', [red]), 400, /no well-formed JSON/],
    ['a prototype', formOf('{"__proto__": {}}', [red]), 400, /has a key .*__proto__/],
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

test('a disk without room is 503 before anything is read', async () => {
  await using full = await start({ MIN_FREE_DISK_MB: String(2 ** 40) });
  const records = await count();
  const { status, headers, body } = await sendForm(full.url, formOf(payloadOf(), [red]));
  assert.deepEqual([status, body.code, headers.get('retry-after')], [503, 'disk_low', '5']);
  assert.equal(await count(), records);
});

/** Forms with pictures, and without. */
const FILES = [[red], []];

for (const files of FILES) {
  const which = files.length > 0 ? 'with pictures' : 'without pictures';
  test(`a model that fails is 502 ${which}; when it is not called for a while, 503 and nothing stored`, () =>
    failingModel(files));
}

async function failingModel(files: (typeof FILES)[number]): Promise<void> {
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
  const source_slug = `failing-with-${files.length}`;
  const payload = payloadOf({ source_slug });
  const headers = { 'idempotency-key': 'failing' };
  const failed = await sendForm(down.url, formOf(payload, files), headers);
  assert.deepEqual([failed.status, failed.body.code], [502, 'model_failed']);
  assert.equal((await rawRecord(db, failed.body.raw_id)).status, 'failed');
  // The breaker opens in the midst of the second one.
  const cut = await sendForm(down.url, formOf(payload, files), headers);
  assert.deepEqual([cut.status, cut.body.code], [502, 'model_failed']);
  assert.match(cut.body.detail, /not called for a while/);
  assert.notEqual(cut.body.detail, failed.body.detail, 'a failed one gives its key up');
  const records = await count();
  const refused = await sendForm(down.url, formOf(payload, files), headers);
  assert.deepEqual([refused.status, refused.body.code], [503, 'model_unavailable']);
  assert.ok(refused.headers.get('retry-after'));
  assert.equal(await count(), records);
  const stored = await db
    .selectFrom('raw_data')
    .select(['id', 'status', 'inline'])
    .where('external_id', '=', payload.external_id)
    .orderBy('id')
    .execute();
  const failedInline = { status: 'failed', inline: true };
  assert.partialDeepStrictEqual(stored, [failedInline, failedInline]);
  assert.equal(stored.length, 2);
  const readings = db.selectFrom('raw_readings').select('raw_id');
  assert.deepEqual(await readings.execute(), [], 'what was read of them is not kept');
  // What brought no pictures can be put back; what did, cannot.
  const rawId = stored[0]?.id ?? 0;
  const retry = await down.post(`/api/v1/admin/raw/${rawId}/retry`);
  const all = await down.post('/api/v1/admin/raw/retry', { status: 'failed', source_slug });
  if (files.length > 0) {
    assert.match(retry.text, /came with its images/);
    assert.deepEqual([retry.status, all.json()], [409, { retried: 0 }]);
  } else {
    assert.deepEqual([retry.status, all.json()], [200, { retried: 1 }]);
    const { status, inline, attempts } = await rawRecord(db, rawId);
    assert.deepEqual([status, inline, attempts], ['pending', false, 0]);
  }
  await server.close();
}
