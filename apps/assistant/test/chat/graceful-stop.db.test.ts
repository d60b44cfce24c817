import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { listening } from '../sockets/people.ts';
import { openStage, talk } from './stage.ts';

const stage = await openStage();
const { model } = stage;

test('who is signed out while the process that answers them stops gets no more of the answer', async (t) => {
  const stopping = await stage.instance();
  const sid = await stage.signIn('u-olena');
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Ще ', rest.opened, 'дещо'] });
  const olena = await talk(t, { url: await listening(stopping), sid });
  const id = await olena.newSession();
  await olena.say(id, 'Розкажи');
  await olena.hear('Ще ');

  const closing = stopping.close();
  assert.equal((await olena.client.closed).code, 1012);
  const signedOut = await stage.app.inject({
    method: 'POST',
    url: '/auth/logout',
    cookies: { svc_auth_session: sid },
  });
  assert.equal(signedOut.statusCode, 200);
  await until(async () => (await stage.stored(id)).length === 2);
  assert.deepEqual((await stage.stored(id)).at(-1), ['assistant', 'Ще ', 'failed']);
  rest.open();
  await closing;
});
