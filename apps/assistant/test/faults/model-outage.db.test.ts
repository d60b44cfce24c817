import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Answer, chunk, startModelServer, streamed } from '@oselya/model/testing';
import { converse, openStage } from '../chat/stage.ts';

let isDown = true;
let requests = 0;
const server = await startModelServer((): Answer => {
  requests += 1;
  if (isDown) return 'reset';
  return streamed([chunk({ content: 'Є дві.' }), chunk({}, { finishReason: 'stop' })]);
});
const stage = await openStage({ MODEL_BASE_URL: server.url });
const { stored, url } = stage;
const sid = await stage.signIn('u-olena');

test('of a model that cannot be reached it is said so, and when it is back the answer is tried again', async (t) => {
  t.after(() => server.close());
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
