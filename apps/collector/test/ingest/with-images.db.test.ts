import assert from 'node:assert/strict';
import fc from 'fast-check';
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { afterEach, test } from 'node:test';
import { createApiKeyStore } from '../../src/access/api-keys.ts';
import type { Payload } from '../../src/ingest/payload.ts';
import { createIngest, storeRawRecords } from '../../src/ingest/store.ts';
import { createProcessForm } from '../../src/ingest/process-form.ts';
import type { RawStatus } from '../../src/tables.ts';
import { createImage } from '../support/images.ts';
import { DatabaseError } from '@oselya/db';
import type { ProblemError } from '@oselya/kit';
import { exchange, until } from '@oselya/testing';
import { watchDatabase } from '@oselya/testing/database';
import {
  readDocumentedRoutes,
  encodeRequestHead,
  BOUNDARY,
  FORM_TYPE,
  encodeForm,
  createImagePart as imagePart,
  createMetadataPart,
  createPart,
  type Part,
  createForm,
  sendForm,
} from '../support/collector.ts';
import {
  readRawRecord,
  store,
  listTemporaryFiles,
  startModelServer,
  createPayload,
  log,
  updateRawRecord,
  waitUntilCompleted,
  createModelEnv,
} from '../support/pipeline.ts';
import { textFile, openUploads, createImageFile, hashFile } from './uploads.ts';

const { db, root, folder, start, collector, send, count, waitUntilResourcesAreFree } =
  await openUploads();

afterEach(waitUntilResourcesAreFree);

const PATH = '/api/v1/ingest/with-images';
const [redFile, blueFile] = [await createImageFile('red'), await createImageFile('blue')];

test('A payload with images is processed before the response, in any order of parts', async () => {
  for (const isMetadataLast of [false, true]) {
    const payload = createPayload();
    const response = await send(
      createForm(payload, [redFile, textFile, redFile], { isMetadataLast }),
    );
    assert.equal(response.status, 200, JSON.stringify(response.body));
    const { raw_id: rawId, listing_id: listingId, status, images } = response.body;
    assert.equal(status, 'completed');
    const storedImage = { sha256: hashFile(redFile), width: 64, height: 48 };
    assert.deepEqual(images, [
      { ...storedImage, duplicate: isMetadataLast },
      { error: 'The file is not a JPEG, PNG, WebP, AVIF or GIF image' },
      { ...storedImage, duplicate: true },
    ]);
    const rawRecord = (await collector.get(`/api/v1/raw/${rawId}`)).json<{
      status: string;
      attempts: number;
      listing_id: number;
      stages: { stage: string }[];
    }>();
    assert.deepEqual(
      [rawRecord.status, rawRecord.attempts, rawRecord.listing_id],
      ['completed', 1, listingId],
    );
    assert.equal(rawRecord.stages.length, 8);
    const listedImages = (await collector.get(`/api/v1/listings/${listingId}/images`)).json<
      { sha256: string | null; described_by: string | null; prompt_version: string | null }[]
    >();
    const expectedDescription = [storedImage.sha256, 'mock', 'image-description.v2'];
    assert.deepEqual(
      listedImages.map(({ sha256, described_by, prompt_version }) => [
        sha256,
        described_by,
        prompt_version,
      ]),
      [expectedDescription, [null, null, null], expectedDescription],
    );
    assert.equal((await collector.get(`/api/v1/images/${storedImage.sha256}`)).status, 200);
  }
});

test('Metadata is a JSON part or a file, and uploads replace image URLs', async () => {
  const payload = createPayload({ image_urls: ['http://127.0.0.1:9/never-asked.png'] });
  const form = createForm('', [blueFile]);
  form.delete('metadata');
  const json = new Blob([`\uFEFF${JSON.stringify(payload)}`], { type: 'application/json' });
  form.append('metadata', json, 'metadata.json');
  const response = await send(form);
  assert.equal(response.status, 200, JSON.stringify(response.body));
  assert.deepEqual(
    response.body.images.map(({ sha256 }) => sha256),
    [hashFile(blueFile)],
  );
});

test('Without uploads the image URLs are fetched, and invalid images are reported', async () => {
  const form = createForm(createPayload({ image_urls: ['http://127.0.0.1:9/private.png'] }), []);
  // A browser sends this part for an empty file input.
  form.append('images', new Blob([]), '');
  const response = await send(form);
  assert.equal(response.status, 200, JSON.stringify(response.body));
  assert.match(response.body.images[0]?.error ?? '', /private or reserved/);
});

test('An unchanged payload with the same images calls no model, and other images replace them', async () => {
  const payload = createPayload();
  const first = await send(createForm(payload, [redFile]));
  const repeatedResponse = await send(createForm(payload, [redFile]));
  assert.deepEqual(repeatedResponse.body.images, [{ ...first.body.images[0], duplicate: true }]);
  const stages = (await readRawRecord(db, repeatedResponse.body.raw_id)).stages;
  assert.deepEqual(
    stages.map(({ stage, outcome }) => [stage, outcome]),
    [['load', 'unchanged']],
  );
  const otherResponse = await send(createForm(payload, [blueFile]));
  assert.equal(otherResponse.body.listing_id, first.body.listing_id);
  assert.deepEqual(
    otherResponse.body.images.map(({ sha256 }) => sha256),
    [hashFile(blueFile)],
  );
});

test('A queued payload is not overtaken and does not overwrite a later payload', async () => {
  const older = createPayload({ price: 50_000, currency: 'USD' });
  const newer = { ...older, price: 48_000 };
  const rawId = await store(db, older);
  const response = await send(createForm(newer, [redFile]));
  assert.equal(response.status, 200, JSON.stringify(response.body));
  await using _ = await start({ COLLECTOR_WORKER: 'true' });
  const rawRecord = await waitUntilCompleted(db, rawId);
  assert.equal(rawRecord.stages.at(-1)?.outcome, 'superseded');
  const address = `/api/v1/listings/${response.body.listing_id}`;
  assert.equal((await collector.get(address)).json<{ price: number }>().price, 48_000);
  const listedImages = (await collector.get(`${address}/images`)).json<{ sha256: string }[]>();
  assert.deepEqual(
    listedImages.map(({ sha256 }) => sha256),
    [hashFile(redFile)],
  );
});

test('An idempotency key returns the earlier outcome and rejects other content', async () => {
  const payload = createPayload();
  const headers = { 'idempotency-key': 'with-images-1' };
  const first = await send(createForm(payload, [redFile]), headers);
  const records = await count();
  assert.deepEqual((await send(createForm(payload, [redFile]), headers)).body, first.body);
  for (const form of [
    createForm(payload, [blueFile]),
    createForm(payload, []),
    createForm(createPayload(), [redFile]),
  ]) {
    const response = await send(form, headers);
    assert.deepEqual([response.status, response.body.code], [409, 'idempotency_conflict']);
  }
  // A newer payload with other images does not change the earlier outcome.
  await send(createForm({ ...payload, price: 1 }, [blueFile]));
  assert.deepEqual((await send(createForm(payload, [redFile]), headers)).body, first.body);
  assert.equal(await count(), records + 1);
});

const error = JSON.stringify({ code: 'model_failed', message: 'No.' });
const setFailed = (rawId: number, isInline: boolean) =>
  updateRawRecord(db, rawId, { status: 'failed', inline: isInline, error });

test('An idempotency key is valid on both routes, and the response has the status of its payload', async () => {
  const keyHeaders = { 'idempotency-key': 'both-routes' };
  /** Returns the replay headers of a response; a new payload has none. */
  const getReplayHeaders = (headers: Headers) => [
    headers.get('idempotent-replayed'),
    headers.get('raw-status'),
  ];
  const sendJson = async (payload: Payload) => {
    const response = await collector.post('/api/v1/ingest', payload, keyHeaders);
    const { raw_id: rawId, status } = response.json<{ raw_id: number; status: string }>();
    assert.equal(status, 'pending', 'as it is answered first');
    return { rawId, replay: getReplayHeaders(response.headers) };
  };
  const payload = createPayload();
  const first = await send(createForm(payload, []), keyHeaders);
  assert.deepEqual(getReplayHeaders(first.headers), [null, null]);
  const replay = ['true', 'completed'];
  assert.deepEqual(await sendJson(payload), { rawId: first.body.raw_id, replay });
  assert.deepEqual(
    getReplayHeaders((await send(createForm(payload, []), keyHeaders)).headers),
    replay,
  );

  // A payload that failed within its request can only be sent again.
  await setFailed(first.body.raw_id, true);
  const repeatedRecord = await sendJson(payload);
  assert.deepEqual(repeatedRecord.replay, [null, null]);
  assert.notEqual(repeatedRecord.rawId, first.body.raw_id);

  // A payload that failed in the queue can be retried.
  const waitingResponse = await send(createForm(payload, []), keyHeaders);
  assert.equal(waitingResponse.body.code, 'still_processing');
  assert.deepEqual(getReplayHeaders(waitingResponse.headers), ['true', 'pending']);
  await setFailed(repeatedRecord.rawId, false);
  const failedHeaders = ['true', 'failed'];
  assert.deepEqual(await sendJson(payload), { rawId: repeatedRecord.rawId, replay: failedHeaders });
  const endedResponse = await send(createForm(payload, []), keyHeaders);
  assert.equal(endedResponse.body.code, 'model_failed');
  assert.deepEqual(getReplayHeaders(endedResponse.headers), failedHeaders);
});

test('A payload whose key expires between two statements is stored again', async () => {
  const payload = createPayload();
  const rawRecord = {
    source_slug: payload.source_slug,
    external_id: payload.external_id,
    payload: JSON.stringify(payload),
    content_hash: 'hash',
    idempotency_key: 'expiring',
    claim: { worker: 'test', leaseMs: 60_000, hasUploads: false },
  };
  const [first] = await storeRawRecords(db, [rawRecord], assert.ifError);
  assert.ok(first !== undefined && 'id' in first);
  const racingDb = watchDatabase(db, {
    async after(text) {
      if (text.includes('set idempotency_key = null')) await setFailed(first.id, true);
    },
  });
  const [second] = await storeRawRecords(racingDb, [rawRecord], assert.ifError);
  assert.ok(second !== undefined && 'id' in second && second.isNew && second.id !== first.id);
});

test('Of concurrent requests with one key, one is processed and the others must retry', async () => {
  const payload = createPayload();
  const headers = { 'idempotency-key': 'with-images-2' };
  const responses = await Promise.all(
    [1, 2, 3].map(() => send(createForm(payload, [redFile]), headers)),
  );
  const completedResponses = responses.filter(({ status }) => status === 200);
  const rejectedResponses = responses.filter(({ status }) => status !== 200);
  assert.equal(new Set(completedResponses.map(({ body }) => body.raw_id)).size, 1);
  for (const { status, body, headers: sent } of rejectedResponses) {
    assert.deepEqual([status, body.code, sent.get('retry-after')], [409, 'still_processing', '5']);
  }
  const laterResponse = await send(createForm(payload, [redFile]), headers);
  assert.equal(laterResponse.body.raw_id, completedResponses[0]?.body.raw_id);
});

const { store: ingest } = createIngest({ db, onAccepted: () => undefined, log });

test('A payload whose outcome an outage of the database hides is answered with its ID', async () => {
  const unavailableDb = new Proxy(db, {
    get() {
      throw new DatabaseError('DATABASE_UNREACHABLE', 'The database does not respond');
    },
  });
  const run = async () => undefined;
  const process = createProcessForm({ db: unavailableDb, store: ingest, leaseMs: 60_000, run });
  await assert.rejects(
    process({ payload: createPayload(), files: [] }, undefined, () => undefined),
    ({ code, status, members }: ProblemError) =>
      code === 'interrupted' && status === 503 && members.raw_id !== undefined,
  );
});

test('Every failure has a documented status', async () => {
  const routes = await readDocumentedRoutes(collector);
  const route = routes.find(({ path }) => path === PATH);
  const processWithEnd = (end: object) =>
    createProcessForm({
      db,
      store: ingest,
      leaseMs: 60_000,
      run: ({ rawId }) => updateRawRecord(db, rawId, end),
    })({ payload: createPayload(), files: [] }, undefined, () => undefined);
  const rawEndings: [status: number, code: string, raw: RawStatus][] = [
    [422, 'not_a_listing', 'invalid'],
    [502, 'model_failed', 'failed'],
    [503, 'stage_timed_out', 'failed'],
    [503, 'interrupted', 'failed'],
    [503, 'lease_lost', 'failed'],
    [503, 'image_store_unavailable', 'failed'],
    [500, 'internal_error', 'failed'],
    // Another worker has the claim.
    [503, 'lease_lost', 'processing'],
    // A payload without uploads returns to the queue.
    [503, 'interrupted', 'pending'],
  ];
  for (const [status, code, rawRecord] of rawEndings) {
    const end = { status: rawRecord, error: JSON.stringify({ code, message: 'Why.' }) };
    await assert.rejects(processWithEnd(end), { status, code });
    assert.ok(route?.errorCodesByStatus[status]?.includes(code), code);
  }
});

test('A payload that is not a listing is 422 with the reason, and its images are not kept', async () => {
  const payload = createPayload({
    source_slug: 'bicycles',
    title: 'Продам велосипед',
    description: 'Продам велосипед гірський, 21 швидкість. Ціна 8000 грн.',
  });
  const response = await send(createForm(payload, [await createImageFile('maroon')]));
  assert.deepEqual([response.status, response.body.code], [422, 'not_a_listing']);
  const { raw_id: rawId } = response.body;
  const rawRecord = await readRawRecord(db, rawId);
  assert.equal(rawRecord.status, 'invalid');
  const retry = await collector.post(`/api/v1/admin/raw/${rawId}/retry`);
  assert.deepEqual([retry.status, retry.json<{ code: string }>().code], [409, 'not_retryable']);
  assert.match(retry.text, /were uploaded with it/);
  const filter = { status: 'invalid', source_slug: 'bicycles' };
  const retryAllResponse = await collector.post('/api/v1/admin/raw/retry', filter);
  assert.deepEqual(retryAllResponse.json(), { retried: 0 });
});

test('A rejected form names the error and stores nothing', async () => {
  const payload = createPayload();
  const formWithTwoMetadata = createForm(payload, [redFile]);
  formWithTwoMetadata.append('metadata', JSON.stringify(payload));
  const formWithUnknownField = createForm(payload, []);
  formWithUnknownField.append('note', 'hello');
  const formWithoutFile = createForm(payload, []);
  formWithoutFile.append('images', 'just text');
  const formWithoutMetadata = createForm(payload, [redFile]);
  formWithoutMetadata.delete('metadata');
  const formWithManyFiles = createForm(
    payload,
    Array.from({ length: 51 }, () => textFile),
  );
  const hugeFile = { name: 'вид з вікна.png', bytes: new Uint8Array(50 * 1024 * 1024 + 1) };

  const cases: [string, FormData | string | undefined, number, RegExp][] = [
    ['two fields', formWithTwoMetadata, 422, /metadata.*once only/],
    ['an unknown field', formWithUnknownField, 422, /note.*is unknown: send/],
    ['text for a file', formWithoutFile, 422, /images.*must be files/],
    ['no metadata', formWithoutMetadata, 422, /metadata.*is missing: send/],
    ['an empty form', new FormData(), 422, /metadata.*is missing: send/],
    ['too many files', formWithManyFiles, 422, /at most 50 files.*notes\.txt.*one too many/],
    ['a large file', createForm(payload, [hugeFile]), 413, /вид з вікна\.png.*larger than 50 MiB/],
    [
      'no JSON',
      createForm('{"source_slug": ', [redFile]),
      400,
      /"metadata\\" is not well-formed JSON/,
    ],
    ['no metadata in the field', createForm('', [redFile]), 400, /not well-formed JSON/],
    ['a prototype', createForm('{"__proto__": {}}', [redFile]), 400, /has a key .*__proto__/],
    [
      'large metadata',
      createForm('x'.repeat(1024 * 1024 + 1), []),
      413,
      /metadata.*larger than 1 MiB/,
    ],
    ['an unknown key', createForm('{"colour":"red"}', []), 422, /\\"colour\\" is unknown/],
    [
      'a bad value',
      createForm({ ...payload, currency: 'XQQ' }, [redFile]),
      422,
      /metadata\/currency/,
    ],
    ['text', 'hello', 415, /Send multipart\/form-data with a field/],
    ['no body', undefined, 415, /Send multipart\/form-data with a field/],
  ];
  const records = await count();
  for (const [name, form, status, reason] of cases) {
    const response = await send(form);
    const text = JSON.stringify(response.body);
    assert.equal(response.status, status, `${name}: ${text}`);
    assert.match(text, reason, name);
    assert.deepEqual(await listTemporaryFiles(folder), [], name);
  }
  const json = await collector.post('/api/v1/ingest/with-images', payload);
  assert.equal(json.status, 415);
  assert.equal(await count(), records);
});

test('The limits of sources and keys are shared with POST /ingest', async () => {
  await using guarded = await start({
    COLLECTOR_AUTH: 'required',
    COLLECTOR_INGEST_PER_MINUTE: '2',
  });
  const keys = createApiKeyStore({ db });
  const createKeyHeaders = async (scope: 'ingest' | 'search', sources?: string[]) => {
    const options = { name: 'k', scopes: [scope], ...(sources === undefined ? {} : { sources }) };
    return { authorization: `Bearer ${(await keys.create(options)).key}` };
  };
  const sendAs = async (payload: Parameters<typeof createForm>[0], headers = {}) => {
    const { status, body } = await sendForm(guarded.url, createForm(payload, [redFile]), headers);
    return [status, body.code ?? body.status];
  };
  const limitedKeyHeaders = await createKeyHeaders('ingest', ['limited']);
  assert.deepEqual(await sendAs(createPayload()), [401, 'unauthorized']);
  assert.deepEqual(await sendAs(createPayload(), await createKeyHeaders('search')), [
    403,
    'forbidden',
  ]);
  assert.deepEqual(await sendAs(createPayload(), limitedKeyHeaders), [403, 'forbidden']);
  assert.deepEqual(await sendAs(createPayload({ source_slug: 'limited' }), limitedKeyHeaders), [
    200,
    'completed',
  ]);
  const jsonResponse = await guarded.post(
    '/api/v1/ingest',
    createPayload({ source_slug: 'limited' }),
    limitedKeyHeaders,
  );
  assert.equal(jsonResponse.status, 202);
  assert.deepEqual(await sendAs(createPayload({ source_slug: 'limited' }), limitedKeyHeaders), [
    429,
    'rate_limited',
  ]);
});

test('A full disk is 503 before the body is read', async () => {
  await using fullCollector = await start({ MIN_FREE_DISK_MB: String(2 ** 40) });
  const records = await count();
  const { status, headers, body } = await sendForm(
    fullCollector.url,
    createForm(createPayload(), [redFile]),
  );
  assert.deepEqual([status, body.code, headers.get('retry-after')], [503, 'disk_low', '5']);
  assert.equal(await count(), records);
});

test('A failed model is 502, and an open breaker is 503 and stores nothing', async () => {
  for (const files of [[redFile], []]) {
    await using server = await startModelServer();
    await using failingCollector = await start({
      ...createModelEnv(server.url),
      COLLECTOR_INGEST_PER_MINUTE: '0',
    });
    server.state.isUp = false;
    const source_slug = `failing-with-${files.length}`;
    const payload = createPayload({ source_slug });
    const sendAgain = () =>
      sendForm(failingCollector.url, createForm(payload, files), { 'idempotency-key': 'failing' });
    // The breaker opens during the second request. A failed payload releases its key.
    const [first, second] = [await sendAgain(), await sendAgain()];
    for (const { status, body } of [first, second]) {
      assert.deepEqual([status, body.code], [502, 'model_failed']);
      assert.match(body.detail, /responded with status 503/);
      const { status: rawStatus, inline } = await readRawRecord(db, body.raw_id);
      assert.deepEqual([rawStatus, inline], ['failed', true]);
    }
    assert.notEqual(first.body.raw_id, second.body.raw_id);
    const records = await count();
    const rejectedResponse = await sendAgain();
    assert.deepEqual(
      [rejectedResponse.status, rejectedResponse.body.code],
      [503, 'model_unavailable'],
    );
    assert.ok(rejectedResponse.headers.get('retry-after'));
    assert.equal(await count(), records);
    const readings = db.selectFrom('raw_readings').select('raw_id');
    assert.deepEqual(await readings.execute(), []);
    // Only payloads without uploads can be retried.
    const retry = await failingCollector.post(`/api/v1/admin/raw/${first.body.raw_id}/retry`);
    const filter = { status: 'failed', source_slug };
    const retryAllBody = (await failingCollector.post('/api/v1/admin/raw/retry', filter)).json();
    if (files.length > 0) {
      assert.match(retry.text, /were uploaded with it/);
      assert.deepEqual([retry.status, retryAllBody], [409, { retried: 0 }]);
    } else {
      assert.deepEqual([retry.status, retryAllBody], [200, { retried: 1 }]);
      const { status, inline, attempts } = await readRawRecord(db, first.body.raw_id);
      assert.deepEqual([status, inline, attempts], ['pending', false, 0]);
    }
  }
});

const bytes = await createImage('png', { colour: 'orchid' });
const image = (name: string, content: Buffer | string = bytes) => imagePart(name, content);

function sendBytes(body: Buffer, type = FORM_TYPE) {
  const headers = { 'content-type': type, 'content-length': body.length, connection: 'close' };
  const head = Buffer.from(encodeRequestHead(PATH, headers));
  return exchange(collector.url, Buffer.concat([head, body]));
}
const repeat = (formPart: Part) => Array<Part>(10_000).fill(formPart);

test('Malformed and incomplete forms are rejected with 400, 413, 415 or 422', async () => {
  const validForm = encodeForm([createMetadataPart(), image('a.png')]);
  const namelessPart = { headers: 'X-Nothing: here', content: 'hidden' };
  const cases: [string, number, Buffer, string?][] = [
    ['no boundary', 400, validForm, 'multipart/form-data'],
    ['an empty boundary', 400, validForm, 'multipart/form-data; boundary='],
    ['another boundary', 400, validForm, 'multipart/form-data; boundary=other'],
    ['another kind of multipart', 415, validForm, `multipart/mixed; boundary=${BOUNDARY}`],
    ['nothing', 422, Buffer.alloc(0)],
    ['only the end', 422, Buffer.from(`--${BOUNDARY}--\r\n`)],
    ['no end', 400, encodeForm([createMetadataPart(), image('a.png')], { end: '' })],
    ['the end in the midst of a file', 400, validForm.subarray(0, validForm.length - 60)],
    ['the end in the midst of the field', 400, validForm.subarray(0, 150)],
    ['the end in the midst of a head', 400, Buffer.from(`--${BOUNDARY}\r\nContent-Dispo`)],
    ['line feeds alone', 400, Buffer.from(validForm.toString('latin1').replaceAll('\r\n', '\n'))],
    ['10,000 images', 422, encodeForm([createMetadataPart(), ...repeat(image('a', ''))])],
    [
      '10,000 other fields',
      422,
      encodeForm([createMetadataPart(), ...repeat(createPart('other', ''))]),
    ],
    [
      '10,000 fields',
      422,
      encodeForm([createMetadataPart(), ...repeat(createPart('metadata', '{}'))]),
    ],
    [
      '10,000 parts without a name',
      413,
      encodeForm([...repeat(namelessPart), createMetadataPart()]),
    ],
    [
      'a field of a prototype',
      400,
      encodeForm([createMetadataPart(), createPart('__proto__', 'x')]),
    ],
    [
      'a part without a name',
      422,
      encodeForm([{ headers: 'Content-Disposition: form-data', content: '' }]),
    ],
  ];
  const records = await count();
  for (const [name, status, body, type] of cases) {
    const response = await sendBytes(body, type);
    assert.equal(response.status, status, `${name}: ${response.text}`);
    await until('no temporary file', async () => (await listTemporaryFiles(folder)).length === 0);
  }
  assert.equal(await count(), records);
});

test('A file name is never used as a path', async () => {
  const names = [
    '../../../escaped.png',
    '/escaped.png',
    'C:\\\\escaped.png',
    'a\0b.png',
    '..',
    '.',
  ];
  const files = names.map((name) => image(name));
  const { status, text } = await sendBytes(encodeForm([createMetadataPart(), ...files]));
  assert.equal(status, 200, text);
  const filePaths = await readdir(root, { recursive: true });
  assert.deepEqual(
    filePaths.filter((path) => path.endsWith('escaped.png')),
    [],
  );
  assert.ok(!existsSync('/escaped.png'));
});

test('Random bytes neither fail the server nor leave a file', async () => {
  const base = encodeForm([
    createMetadataPart(),
    image('a.png'),
    createPart('metadata', '{}'),
    image('b.png', 'x'),
  ]);
  const bodies = fc.array(
    fc.record({ at: fc.nat(base.length - 1), bytes: fc.uint8Array({ maxLength: 12 }) }),
    { minLength: 1, maxLength: 4 },
  );
  await fc.assert(
    fc.asyncProperty(bodies, fc.nat(base.length), async (changes, length) => {
      const body = Buffer.from(base);
      for (const change of changes)
        body.set(change.bytes.subarray(0, base.length - change.at), change.at);
      const { status, text } = await sendBytes(body.subarray(0, Math.max(1, length)));
      assert.ok([200, 400, 413, 422].includes(status), text);
      await until('no temporary file', async () => (await listTemporaryFiles(folder)).length === 0);
    }),
    { numRuns: 60 },
  );
});
