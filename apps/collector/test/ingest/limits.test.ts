import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { guardRoutes } from '../../src/access/guard.ts';
import { createDisk } from '../../src/free-disk-space.ts';
import { PayloadSchema } from '../../src/ingest/payload.ts';
import { registerIngestRoutes } from '../../src/ingest/routes.ts';
import { createFormLimit, registerUploadRoutes } from '../../src/ingest/with-images.ts';
import { createMetrics } from '../../src/metrics.ts';
import { MEBIBYTE } from '../../src/schemas.ts';
import { openFolder, until } from '@oselya/testing';
import {
  FORM_TYPE,
  encodeForm,
  createImagePart,
  createMetadataPart,
} from '../support/collector.ts';
import { createFakeBreaker, createPayload, createTestServer } from '../support/pipeline.ts';

/** Starts `POST /ingest` with a database that stalls at the rate limit or while storing. */
async function startStalledIngest(
  stalledStep: 'limit' | 'store',
  bounds: { maxItems: number; maxBytes: number },
) {
  const app = await createTestServer(64 * 1024);
  guardRoutes(app, undefined);
  const gate = Promise.withResolvers<void>();
  const calls: string[] = [];
  const registry = new Registry();
  const enter = async (step: 'limit' | 'store') => {
    calls.push(step);
    if (step === stalledStep) await gate.promise;
  };
  registerIngestRoutes(app, {
    ingest: {
      async accept() {
        await enter('store');
        return { id: 1, contentHash: '', status: 'pending', isNew: true, isBlocked: false };
      },
      find: () => Promise.resolve(undefined),
    },
    async limit() {
      await enter('limit');
      return {};
    },
    bounds,
    metrics: createMetrics(registry),
  });
  return {
    registry,
    release: () => gate.resolve(),
    countWaiting: () => calls.filter((step) => step === stalledStep).length,
    send: (payload: object, headers: Record<string, string> = {}) =>
      app.inject({
        method: 'POST',
        url: '/ingest',
        headers: { 'content-type': 'application/json', ...headers },
        payload: JSON.stringify(payload),
      }),
  };
}

const countBytes = (payload: object) => Buffer.byteLength(JSON.stringify(payload));

test('Excess payloads are rejected immediately while the database stalls at the limit or the store', async () => {
  const largePayload = createPayload({ description: 'ї'.repeat(1000) });
  for (const stalledStep of ['limit', 'store'] as const) {
    for (const bounds of [
      { maxItems: 100, maxBytes: 3 * countBytes(largePayload) + 100 },
      { maxItems: 3, maxBytes: 1e6 },
    ]) {
      const { send, release, countWaiting, registry } = await startStalledIngest(
        stalledStep,
        bounds,
      );
      const responsePromises = [1, 2, 3].map(() => send(largePayload));
      await until('three to wait', () => countWaiting() === 3);
      const rejectedResponse = await send(largePayload);
      assert.equal(rejectedResponse.statusCode, 503);
      assert.equal(rejectedResponse.json<{ code: string }>().code, 'ingest_busy');
      assert.match(String(rejectedResponse.headers['retry-after']), /^\d+$/);
      assert.equal(countWaiting(), 3);
      release();
      const statuses = (await Promise.all(responsePromises)).map(({ statusCode }) => statusCode);
      assert.deepEqual(statuses, [202, 202, 202]);
      assert.equal((await send(largePayload)).statusCode, 202);
      assert.match(await registry.metrics(), /\{source="other",outcome="failed"\} 1\n/);
    }
  }
});

test('A payload without a declared length counts with its actual size', async () => {
  const payload = createPayload();
  const bounds = { maxItems: 100, maxBytes: countBytes(payload) + 10 };
  const { send, release, countWaiting } = await startStalledIngest('store', bounds);
  const chunkedHeaders = { 'transfer-encoding': 'chunked' };
  const firstResponse = send(payload, chunkedHeaders);
  await until('a payload to wait', () => countWaiting() === 1);
  assert.equal((await send(payload, chunkedHeaders)).statusCode, 503);
  release();
  assert.equal((await firstResponse).statusCode, 202);
});

const folder = await openFolder();

/** File sizes of each processed form. */
const processedSizes: number[][] = [];

/** Server with an upload route that uses no database. */
const app = await createTestServer(MEBIBYTE);
guardRoutes(app, undefined);
app.addSchema(PayloadSchema);
await app.register(registerUploadRoutes, {
  limit: async () => ({}),
  breaker: createFakeBreaker(),
  imageStore: { isUnavailable: false },
  disk: createDisk({ folder, minFreeMb: 0 }),
  getTemporaryFolder: () => folder,
  metrics: createMetrics(new Registry()),
  async processForm({ files }) {
    processedSizes.push(files.map(({ bytes }) => bytes));
    assert.equal(
      (await readdir(folder)).length,
      files.length,
      'the files exist while the form is processed',
    );
    return { raw_id: 1, status: 'completed' as const, listing_id: 1, images: [] };
  },
  concurrency: 1,
  maxBytes: MEBIBYTE,
});
const url = await app.listen({ port: 0 });

/** Sends files of the given sizes, in bytes, without a declared length. */
async function sendFiles(sizes: readonly number[], metadataPart = createMetadataPart()) {
  const files = sizes.map((bytes, index) => createImagePart(`${index}.png`, Buffer.alloc(bytes)));
  const response = await fetch(`${url}/ingest/with-images`, {
    method: 'POST',
    headers: { 'content-type': FORM_TYPE },
    body: Readable.toWeb(Readable.from([encodeForm([metadataPart, ...files])])) as ReadableStream,
    duplex: 'half',
  });
  return { status: response.status, body: (await response.json()) as { detail: string } };
}

test('A form without a declared length is limited in its total size', async () => {
  const metadataPart = createMetadataPart();
  const remainingBytes = MEBIBYTE - Buffer.byteLength(metadataPart.content);
  const fullFormResponse = await sendFiles(
    [400_000, 400_000, remainingBytes - 800_000],
    metadataPart,
  );
  assert.equal(fullFormResponse.status, 200, JSON.stringify(fullFormResponse.body));
  assert.deepEqual(processedSizes, [[400_000, 400_000, remainingBytes - 800_000]]);
  assert.deepEqual(await readdir(folder), []);

  const largerFormResponse = await sendFiles(
    [400_000, 400_000, remainingBytes - 800_000 + 1],
    metadataPart,
  );
  assert.equal(largerFormResponse.status, 413);
  assert.match(largerFormResponse.body.detail, /larger than 1 MiB, up to the file "2\.png"/);
  assert.deepEqual(await readdir(folder), []);
  assert.equal(processedSizes.length, 1);
});

test('Four forms per slot are in progress, three of them of one caller', async () => {
  const withinLimit = createFormLimit(2);
  const { promise, resolve } = Promise.withResolvers<void>();
  const heldForms = ['a', 'a', 'a', 'a', 'a', 'a', 'b'].map((caller) =>
    withinLimit(caller, () => promise),
  );
  await assert.rejects(
    withinLimit('a', () => promise),
    /COLLECTOR_UPLOADS/,
  );
  heldForms.push(withinLimit('b', () => promise));
  await assert.rejects(
    withinLimit('c', () => promise),
    { code: 'uploads_busy', message: /Four times/ },
  );
  resolve();
  await Promise.all(heldForms);
  for (let attempt = 0; attempt < 3; attempt += 1) {
    await assert.rejects(
      withinLimit('a', () => Promise.reject(new Error('It failed'))),
      /It failed/,
    );
  }
  assert.equal(await withinLimit('a', async () => 'done'), 'done');
});
