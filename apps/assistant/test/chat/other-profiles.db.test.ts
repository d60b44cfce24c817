import assert from 'node:assert/strict';
import { test } from 'node:test';
import { person } from '../helpers/people.ts';
import { folderOf, profile } from '../profiles/folder.ts';
import { openStage, type Talker, talk } from './stage.ts';

// What becomes of a session whose profile is another one by now: processes with other files stand for it.
const market = profile('market', 'model: own-model\ntools: [get_listing]\n');
const usual = profile('default', 'model: usual-model\ntools: [search_listings, remember_fact]\n');
const stage = await openStage({
  PROFILES_DIR: await folderOf({ 'market.yaml': market, 'default.yaml': usual }),
});
const { model, url } = stage;
const sid = await stage.signIn('u-olena');
const { sid: adminSid } = await stage.signedIn(stage.app, person('u-admin', { isAdmin: true }));

async function marketSession({ client }: Talker): Promise<string> {
  const created = await client.ask({ type: 'session.create', profile_id: 'market' });
  return String(created['session_id']);
}

const processWith = async (files: Record<string, string>) =>
  stage.another({ PROFILES_DIR: await folderOf(files) });

test('a session whose profile is gone goes on with the usual one, as its context shows', async (t) => {
  const olena = await talk(t, { url, sid });
  const id = await marketSession(olena);
  const there = await processWith({ 'default.yaml': usual });
  const answer = await fetch(`${there}/sessions/${id}/context`, {
    headers: { cookie: `svc_auth_session=${adminSid}` },
  });
  assert.equal(answer.status, 200);
  const context = (await answer.json()) as {
    profile_id: string;
    request: { model: string; system: string; tools: { name: string }[] };
  };
  assert.equal(context.profile_id, 'market');

  const again = await talk(t, { url: there, sid });
  await again.client.ask({ type: 'session.open', session_id: id });
  await again.say(id, 'Добрий день');
  await again.waitFor('message.completed');
  const sent = model.seen.at(-1) as (typeof model.seen)[number] & { model: string };
  const asked = {
    model: sent.model,
    system: sent.messages[0]?.content,
    tools: sent.tools?.map(({ function: { name } }) => name),
  };
  assert.deepEqual(asked.tools, ['remember_fact', 'search_listings']);
  assert.equal(asked.model, 'usual-model');
  const { request } = context;
  assert.deepEqual(
    { ...request, tools: request.tools.map(({ name }) => name) },
    {
      ...asked,
      messages: [],
    },
  );
});

test('in a session whose profile is for administrators by now nothing is said, or tried again', async (t) => {
  const olena = await talk(t, { url, sid });
  const id = await marketSession(olena);
  // An answer that could be tried again.
  model.scripts.push({ words: [] });
  await olena.say(id, 'Добрий день');
  await olena.waitFor('error');
  const there = await processWith({
    'market.yaml': `${market}is_admin_only: true\n`,
    'default.yaml': usual,
  });
  const again = await talk(t, { url: there, sid });
  const asked = model.seen.length;
  const opened = await again.client.outcome({ type: 'session.open', session_id: id });
  assert.equal(opened, 'ok', 'what was said is still theirs');
  assert.equal((await again.say(id, 'І ще')).problem?.code, 'admin_only');
  const retry = { type: 'message.retry', session_id: id };
  assert.equal(await again.client.outcome(retry), 'admin_only');
  assert.equal(model.seen.length, asked);
  assert.equal((await stage.stored(id)).length, 2);
});
