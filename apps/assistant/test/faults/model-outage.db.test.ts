import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atEnd } from '@oselya/db/testing';
import { type Answer, chunk, startModelServer, streamed } from '@oselya/model/testing';
import { converse, openStage } from '../chat/stage.ts';
import { until } from '../helpers/until.ts';

let isDown = true;
let requests = 0;
let fault: Answer | undefined;
const server = await startModelServer(({ path }): Answer => {
  if (path.endsWith('/models')) return { body: { data: [] } };
  requests += 1;
  if (fault !== undefined) return fault;
  if (isDown) return 'reset';
  return streamed([chunk({ content: 'Є дві.' }), chunk({}, { finishReason: 'stop' })]);
});
const stage = await openStage({ MODEL_BASE_URL: server.url });
const { app, stored, url } = stage;
atEnd(() => server.close());
const sid = await stage.signIn('u-olena');

const health = async () => (await app.inject('/health')).json().checks.model;

test('an error in the middle of a stream is one of the model: said so, counted, and in the health', async (t) => {
  isDown = false;
  // By then the probe of the start has failed, and says nothing later.
  await until(async () => (await health()).status === 'degraded');
  const olena = await converse(t, { url, sid });
  const id = await olena.newSession('Пошук');
  const end = (body: object) => (fault = streamed([chunk({ content: 'Є ' }), body]));
  end({ error: { code: 500, message: 'Compute error.', type: 'server_error' } });
  const { problem } = await olena.say(id, 'Що є?').waitFor('error');
  assert.equal(problem.code, 'model_unavailable');
  const { status, detail } = await health();
  assert.equal(status, 'degraded');
  assert.match(detail, /^The last chat request failed: .* with an error: Compute error\.$/);

  end({
    error: { message: 'too long', type: 'invalid_request_error', code: 'context_length_exceeded' },
  });
  const { problem: rejected } = await olena.retry(id).waitFor('error');
  assert.equal(rejected.code, 'model_failed');

  fault = undefined;
  await olena.retry(id).waitFor('message.completed');
  assert.deepEqual(await health(), { status: 'ok' });
  const { body } = await app.inject('/metrics');
  const counted = body.matchAll(/requests_total{operation="chat",outcome="(\w+)"} (\d+)/g);
  assert.deepEqual(
    new Map([...counted].map(([, outcome, count]) => [outcome, count])),
    new Map([
      ['MODEL_UNAVAILABLE', '1'],
      ['MODEL_INPUT_TOO_LARGE', '1'],
      ['ok', '1'],
    ]),
  );
  isDown = true;
});

test('of a model that cannot be reached it is said so, and when it is back the answer is tried again', async (t) => {
  const olena = await converse(t, { url, sid });
  // It has a name: nobody asks the model for one meanwhile.
  const id = await olena.newSession('Пошук');
  const { problem, message } = await olena.say(id, 'Що є?').waitFor('error');
  assert.partialDeepStrictEqual(problem, { code: 'model_unavailable', status: 503 });
  assert.partialDeepStrictEqual(message, { content: '', status: 'failed' });
  assert.deepEqual(await stored(id), [
    ['user', 'Що є?', null],
    ['assistant', '', 'failed'],
  ]);

  isDown = false;
  await olena.retry(id).waitFor('message.completed');
  assert.deepEqual(await stored(id), [
    ['user', 'Що є?', null],
    ['assistant', 'Є дві.', null],
  ]);

  // After five failures in a row it is not asked any more, and said alike.
  isDown = true;
  const failed: number[] = [];
  for (let attempt = 1; attempt <= 3; attempt += 1) {
    const before = requests;
    const { problem: again } = await olena.say(id, `Ще ${attempt}`).waitFor('error');
    assert.equal(again.code, 'model_unavailable');
    failed.push(requests - before);
  }
  assert.deepEqual(failed, [3, 2, 0]);
  const messages = await stored(id);
  assert.deepEqual(messages.slice(-2), [
    ['user', 'Ще 3', null],
    ['assistant', '', 'failed'],
  ]);
});
