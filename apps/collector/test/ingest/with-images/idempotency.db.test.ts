import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import type { Payload } from '../../../src/ingest/payload.ts';
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

test('a key gives the earlier outcome also once its source has sent the same again', async () => {
  const payload = payloadOf();
  const form = () => formOf(payload, [red]);
  await send(form());
  const headers = { 'idempotency-key': 'with-images-same' };
  const unchanged = await send(form(), headers);
  assert.equal(unchanged.body.images?.length, 1);
  await send(form());
  assert.deepEqual((await send(form(), headers)).body, unchanged.body);
});

/** How an answer says that its payload had come before, and how that one stands by now; nothing of a new one. */
const replayOf = (headers: Headers) => [
  headers.get('idempotent-replayed'),
  headers.get('raw-status'),
];

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
    assert.equal(status, 'pending', 'as it is answered first');
    return { rawId, replay: replayOf(answer.headers) };
  };

  const done = payloadOf();
  const { body, headers } = await send(formOf(done, []), keyed);
  assert.deepEqual(replayOf(headers), [null, null]);
  const replay = ['true', 'completed'];
  assert.deepEqual(await plain(done), { rawId: body.raw_id, replay });
  assert.deepEqual(replayOf((await send(formOf(done, []), keyed)).headers), replay);
  for (const form of [formOf(done, [red]), formOf({ ...done, price: 1 }, [])]) {
    assert.equal((await send(form, keyed)).body.code, 'idempotency_conflict');
  }

  // What failed within its request cannot be done again but by sending it again.
  await setFailed(body.raw_id, true);
  const again = await plain(done);
  assert.deepEqual(again.replay, [null, null]);
  assert.notEqual(again.rawId, body.raw_id);

  // What failed in the queue can be put back there.
  const waiting = await send(formOf(done, []), keyed);
  assert.equal(waiting.body.code, 'still_processing');
  assert.deepEqual(replayOf(waiting.headers), ['true', 'pending']);
  await setFailed(again.rawId, false);
  const failed = ['true', 'failed'];
  assert.deepEqual(await plain(done), { rawId: again.rawId, replay: failed });
  const ended = await send(formOf(done, []), keyed);
  assert.equal(ended.body.code, 'model_failed');
  assert.deepEqual(replayOf(ended.headers), failed);
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
