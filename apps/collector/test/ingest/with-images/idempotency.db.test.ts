import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import type { Payload } from '../../../src/payload/schema.ts';
import { formOf } from '../../support/form.ts';
import { payloadOf } from '../../support/payload.ts';
import { openUploads, pictureFile } from './harness.ts';

const { db, collector, send, count, untilNothingIsLeft } = await openUploads();

afterEach(untilNothingIsLeft);

const [red, blue] = [await pictureFile('red'), await pictureFile('blue')];

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
