import assert from 'node:assert/strict';
import { test } from 'node:test';
import { closeServer } from '@oselya/kit';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { listening } from '../sockets/people.ts';
import { converse, openStage, wayTo } from './stage.ts';

const stage = await openStage();
const { model } = stage;

test('who is signed out while the process that answers them stops gets no more of the answer', async (t) => {
  const stopping = await stage.instance();
  const sid = await stage.signIn('u-olena');
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Ще ', rest.opened, 'дещо'] });
  const way = await wayTo(t, await listening(stopping));
  const olena = await converse(t, { url: way.url, sid });
  const id = await olena.newSession();
  const answer = olena.say(id, 'Розкажи');
  await answer.hear('Ще ');

  const closing = stopping.close();
  await until(() => olena.statuses.some((status) => status.type === 'waiting'));
  assert.partialDeepStrictEqual(olena.statuses[1], { type: 'waiting', code: 1012 });
  const signedOut = await stage.app.inject({
    method: 'POST',
    url: '/auth/logout',
    cookies: { svc_auth_session: sid },
  });
  assert.equal(signedOut.statusCode, 200);
  await until(async () => (await stage.stored(id)).length === 2);
  assert.deepEqual((await stage.stored(id)).at(-1), ['assistant', 'Ще ', 'failed']);
  // Another process takes the connection that is made again, and knows nobody by that cookie.
  way.leadTo(stage.url);
  assert.equal((await answer.failure()).code, 'signed_out');
  assert.equal(answer.streamed, 'Ще ');
  rest.open();
  await closing;
});

test('a process that stops answers its health until the last turn has ended, and nothing else', async (t) => {
  const stopping = await stage.instance();
  const sid = await stage.signIn('u-olena');
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Ще ', rest.opened, 'дещо'] });
  const url = await listening(stopping);
  const olena = await converse(t, { url, sid });
  const id = await olena.newSession();
  const answer = olena.say(id, 'Розкажи');
  await answer.hear('Ще ');
  const statusOf = async (path: string) =>
    (await fetch(url + path, { headers: { cookie: `svc_auth_session=${sid}` } })).status;
  assert.deepEqual([await statusOf('/health/ready'), await statusOf('/sessions')], [200, 200]);

  const closing = closeServer(stopping, 60_000);
  await until(() => olena.statuses.some((status) => status.type === 'waiting'));
  assert.deepEqual(
    await Promise.all(['/health/ready', '/health', '/sessions'].map(statusOf)),
    [503, 503, 503],
  );
  assert.deepEqual([await statusOf('/health/live'), await statusOf('/metrics')], [200, 200]);
  rest.open();
  await closing;
  assert.deepEqual((await stage.stored(id)).at(-1), ['assistant', 'Ще дещо', null]);
});
