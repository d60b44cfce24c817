import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { chunk, streamed, toolCallChunk } from '@oselya/model/testing';
import type { Server } from '@oselya/kit';
import { clearAccess } from '../../src/identity/revocation.ts';
import { person } from '../helpers/people.ts';
import { listing } from '../helpers/scripted-collector.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { folderOf, profile } from '../profiles/folder.ts';
import { SECRET, send } from '../webhooks/signing.ts';
import { openStage, SPEAKER, type Talker, talk } from './stage.ts';

const stage = await openStage({ IDP_WEBHOOK_SECRET: SECRET });
const { collector, db, model, provider, url } = stage;
/** Another process, which nobody is connected to. */
const elsewhere = await stage.instance();

/** Somebody whose answer has begun, and goes on when it is let go. */
async function midAnswer(t: Parameters<typeof talk>[0], name: string) {
  const sid = await stage.signIn(name);
  const talker = await talk(t, { url, sid });
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Ще ', rest.opened, 'дещо'] });
  const id = await talker.newSession();
  await talker.say(id, 'Розкажи');
  await talker.hear('Ще ');
  return { sid, talker, id, rest };
}

/** What there is of the answer of a session. */
const answer = (sessionId: string) =>
  db
    .selectFrom('conversation_messages')
    .select(['content', 'status', 'problem'])
    .where('session_id', '=', sessionId)
    .where('role', '=', 'assistant')
    .executeTakeFirst();

/** Fails unless an answer ends by itself, with what there was of it, since nobody is signed in any more. */
async function endsAsSignedOut(sessionId: string): Promise<void> {
  await until(async () => (await answer(sessionId)) !== undefined);
  assert.partialDeepStrictEqual(await answer(sessionId), {
    content: 'Ще ',
    status: 'failed',
    problem: { code: 'not_signed_in' },
  });
}

const signOut = (app: Server, sid: string) =>
  app.inject({ method: 'POST', url: '/auth/logout', cookies: { svc_auth_session: sid } });

/** What ends somebody's sign-in, as another process is told of it. */
const revocations: Record<string, (who: { name: string; sid: string }) => Promise<unknown>> = {
  'a sign-out': ({ sid }) => signOut(elsewhere, sid),
  'a webhook that they are blocked': ({ name }) =>
    send(elsewhere, { event: 'user.blocked', user_id: name }),
};

for (const [index, [what, revoke]] of Object.entries(revocations).entries()) {
  const name = `u-revoked-${index}`;

  test(`${what} at another process ends the answer that is being written here`, async (t) => {
    const { sid, talker, id } = await midAnswer(t, name);
    await revoke({ name, sid });
    assert.equal((await talker.client.closed).code, 4401);
    await endsAsSignedOut(id);
  });

  test(`${what} ends it where its asker has closed the socket before, too`, async (t) => {
    const { sid, talker, id } = await midAnswer(t, `${name}-gone`);
    talker.client.socket.close();
    await talker.client.closed;
    assert.equal(await answer(id), undefined);
    await revoke({ name: `${name}-gone`, sid });
    await endsAsSignedOut(id);
  });
}

test('an answer whose asker has only closed the socket is written to its end', async (t) => {
  const { talker, id, rest } = await midAnswer(t, 'u-oksana');
  talker.client.socket.close();
  await talker.client.closed;
  rest.open();
  await until(async () => (await answer(id)) !== undefined);
  assert.partialDeepStrictEqual(await answer(id), { content: 'Ще дещо', status: null });
});

/** Whether somebody may begin a conversation, by the rights that are known of them now: `ok`, or why not. */
const mayCreate = ({ client }: Talker) => client.outcome({ type: 'session.create' });

/** Has the next answer run two tools: a search, and a second one when it is let go. */
function betweenTwoTools(t: TestContext, second: { name: string; arguments: string }): () => void {
  collector.listings = [listing(1)];
  const rest = gate();
  t.after(rest.open);
  const search = { name: 'search_listings', arguments: { query: 'дім' } };
  const end = chunk({}, { finishReason: 'tool_calls' });
  model.scripts.push(
    { tools: [search] },
    { answer: streamed([() => rest.opened, toolCallChunk({ id: 'second', ...second }), end]) },
  );
  return rest.open;
}

const details = { name: 'get_listing', arguments: '{"listing_id":1}' };

/** Fails unless an answer has had its first tool run, and its second refused. */
async function endsWithRefusal(talker: Talker, summary: string): Promise<void> {
  await talker.waitFor('message.completed');
  assert.partialDeepStrictEqual(
    talker.of('tool.finished').map(({ tool }) => tool),
    [{ status: 'done' }, { status: 'failed', summary }],
  );
}

/** What a tool is refused with that a profile for admins has run for somebody else. */
const FOR_ADMINS =
  'For administrators only. This profile needs the role `admin`. Start a session with another profile.';

test('who loses svc.tools.use between two tools of one answer has the first run, and not the second', async (t) => {
  const sid = await stage.signIn('u-ivan');
  const ivan = await talk(t, { url, sid });
  const goOn = betweenTwoTools(t, details);
  const id = await ivan.newSession();
  await ivan.say(id, 'Шукай');
  await ivan.waitFor('tool.finished');
  const asked = collector.asked.length;
  assert.equal(await mayCreate(ivan), 'ok');

  provider.user = person('u-ivan', { permissions: ['svc.memory.read_own'] });
  await db.transaction().execute((trx) => clearAccess(trx, { userId: 'u-ivan' }));
  await until(async () => (await mayCreate(ivan)) === 'permission_missing');
  goOn();
  await endsWithRefusal(ivan, 'it needs svc.tools.use');
  assert.equal(collector.asked.length, asked);
});

test('an admin who is none any more between two tools of one answer has no more run by a profile for admins', async (t) => {
  const { sid } = await stage.signedIn(stage.app, person('u-chief', { isAdmin: true }));
  const chief = await talk(t, { url, sid });
  const goOn = betweenTwoTools(t, { name: 'lookup_endpoint', arguments: '{"words":"http"}' });
  const create = { type: 'session.create', profile_id: 'diagnostics' };
  const { session_id: id } = await chief.client.ask(create);
  await chief.say(String(id), 'Чому не працює?');
  await chief.waitFor('tool.finished');

  provider.user = person('u-chief', { permissions: [...SPEAKER] });
  await db.transaction().execute((trx) => clearAccess(trx, { userId: 'u-chief' }));
  await until(async () => (await chief.client.outcome(create)) === 'admin_only');
  goOn();
  await endsWithRefusal(chief, FOR_ADMINS);
});

test('a profile that becomes one for admins between two tools of one answer has no more run for others', async (t) => {
  const own = 'tools: [search_listings, get_listing]\n';
  const folder = await folderOf({
    'default.yaml': profile('default', own),
    'other.yaml': profile('other'),
  });
  const there = await stage.another({ PROFILES_DIR: folder });
  const sid = await stage.signIn('u-zoryana');
  const zoryana = await talk(t, { url: there, sid });
  const goOn = betweenTwoTools(t, details);
  const id = await zoryana.newSession();
  await zoryana.say(id, 'Шукай');
  await zoryana.waitFor('tool.finished');
  const asked = collector.asked.length;

  await writeFile(join(folder, 'default.yaml'), profile('default', `${own}is_admin_only: true\n`));
  const headers = { cookie: `svc_auth_session=${sid}` };
  const mine = async () => (await fetch(`${there}/profiles`, { headers })).text();
  await until(async () => !(await mine()).includes('"default"'));
  goOn();
  await endsWithRefusal(zoryana, FOR_ADMINS);
  assert.equal(collector.asked.length, asked);
});
