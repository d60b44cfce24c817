import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createServer } from '@oselya/kit';
import { Registry } from 'prom-client';
import { guardRoutes } from '../../src/access/guard.ts';
import { ingestRoutes } from '../../src/ingest/routes.ts';
import { createMetrics } from '../../src/metrics.ts';
import { payloadOf } from '../support/payload.ts';
import { log } from '../support/pipeline.ts';
import { until } from '../support/until.ts';

/** The ingest where the database answers when the test says so, be it the limit's or the payload's turn. */
async function startHeld(slow: 'limit' | 'store', atOnce: { items: number; bytes: number }) {
  const app = await createServer({
    log,
    bodyLimit: 64 * 1024,
    openapi: { title: 'Test', description: 'A test.', version: '1' },
  });
  after(() => app.close());
  guardRoutes(app, undefined);
  const held = Promise.withResolvers<void>();
  const reached: string[] = [];
  const registry = new Registry();
  const pass = async (part: 'limit' | 'store') => {
    reached.push(part);
    if (part === slow) await held.promise;
  };
  ingestRoutes(app, {
    ingest: {
      async accept() {
        await pass('store');
        return { rawId: 1, status: 'pending', isNew: true };
      },
      find: () => Promise.resolve(undefined),
    },
    async limit() {
      await pass('limit');
      return {};
    },
    atOnce,
    metrics: createMetrics(registry),
  });
  return {
    registry,
    release: () => held.resolve(),
    waiting: () => reached.filter((part) => part === slow).length,
    send: (payload: object, headers: Record<string, string> = {}) =>
      app.inject({
        method: 'POST',
        url: '/ingest',
        headers: { 'content-type': 'application/json', ...headers },
        payload: JSON.stringify(payload),
      }),
  };
}

const bytesOf = (payload: object) => Buffer.byteLength(JSON.stringify(payload));

for (const slow of ['limit', 'store'] as const) {
  test(`while the database stalls at the ${slow}, what is too much is refused at once`, async () => {
    const large = payloadOf({ description: 'ї'.repeat(1000) });
    const atOnce = { items: 100, bytes: 3 * bytesOf(large) + 100 };
    const { send, release, waiting, registry } = await startHeld(slow, atOnce);
    const waits = [1, 2, 3].map(() => send(large));
    await until('three to wait', () => waiting() === 3);
    const refused = await send(large);
    assert.equal(refused.statusCode, 503);
    assert.equal(refused.json<{ code: string }>().code, 'ingest_busy');
    assert.match(String(refused.headers['retry-after']), /^\d+$/);
    assert.equal(waiting(), 3);
    release();
    const statuses = (await Promise.all(waits)).map(({ statusCode }) => statusCode);
    assert.deepEqual(statuses, [202, 202, 202]);
    assert.equal((await send(large)).statusCode, 202);
    assert.match(await registry.metrics(), /\{source="other",outcome="failed"\} 1\n/);
  });
}

test('many small ones are bounded too', async () => {
  const { send, release, waiting } = await startHeld('store', { items: 2, bytes: 1e6 });
  const waits = [send(payloadOf()), send(payloadOf())];
  await until('two to wait', () => waiting() === 2);
  assert.equal((await send(payloadOf())).statusCode, 503);
  release();
  assert.ok((await Promise.all(waits)).every(({ statusCode }) => statusCode === 202));
});

test('one that does not say how long it is counts by what it is', async () => {
  const payload = payloadOf();
  const atOnce = { items: 100, bytes: bytesOf(payload) + 10 };
  const { send, release, waiting } = await startHeld('store', atOnce);
  const chunked = { 'transfer-encoding': 'chunked' };
  const first = send(payload, chunked);
  await until('one to wait', () => waiting() === 1);
  assert.equal((await send(payload, chunked)).statusCode, 503);
  release();
  assert.equal((await first).statusCode, 202);
});
