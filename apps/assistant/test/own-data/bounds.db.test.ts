import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createLogger, createServer } from '@oselya/kit';
import { ownDataRoutes } from '../../src/own-data/routes.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';

const { db } = await openAssistant();

/**
 * A server with one place for exports, which believes whoever says who they are.
 * @param answered Is waited for before each answer of its database, and fails in the place of that.
 */
async function start(answered: () => Promise<void>): Promise<string> {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1024,
    openapi: { title: 'Test', description: 'Test', version: '1' },
  });
  app.decorateRequest('user', null);
  app.addHook('onRequest', (request, _reply, done) => {
    const user = { email: 'a@example.test', display_name: null, role: 'user', permissions: [] };
    request.user = { ...user, id: String(request.headers['x-user']) } as never;
    done();
  });
  const held = db.withPlugin({
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => {
      await answered();
      return result;
    },
  });
  ownDataRoutes(app, held, { maxExports: 1 });
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  after(() => {
    app.server.closeAllConnections();
    return app.close();
  });
  return url;
}

/** Asks for an export, until none is in progress any more: whoever is answered may hear of it before the server does. */
async function exported(url: string, user: string): Promise<Response> {
  let answer: Response | undefined;
  await until(async () => {
    answer = await fetch(`${url}/me/export`, { headers: { 'x-user': user } });
    if (answer.status === 409) await answer.text();
    return answer.status !== 409;
  });
  assert.ok(answer);
  return answer;
}

const countAudits = async () => (await db.selectFrom('audit_log').select('id').execute()).length;

test('a user has one export at a time, and a process a bounded number, until one has ended or gone', async () => {
  const answers = gate();
  const url = await start(() => answers.opened);
  const ask = (user: string, signal?: AbortSignal) =>
    fetch(`${url}/me/export`, { headers: { 'x-user': user }, ...(signal && { signal }) });
  const leaving = new AbortController();
  const first = assert.rejects(ask('u-olena', leaving.signal), { name: 'AbortError' });
  await until(async () => (await countAudits()) === 1);

  const again = await ask('u-olena');
  assert.equal(again.status, 409);
  assert.equal(((await again.json()) as { code: string }).code, 'export_running');
  const other = await ask('u-taras');
  assert.equal(other.status, 503);
  assert.equal(other.headers.get('retry-after'), '2');
  assert.match(await other.text(), /Too many exports are in progress/);
  assert.equal(await countAudits(), 1, 'nothing is noted of what was not exported');

  leaving.abort();
  await first;
  answers.open();
  await until(async () => {
    const answer = await ask('u-taras');
    await answer.text();
    return answer.status === 200;
  });
  // One that came whole is over as well.
  assert.equal((await ask('u-taras')).status, 200);
});

/** Gives somebody two sessions, of which one is longer than what is sent at once, with a file and a search. */
async function fill(userId: string): Promise<void> {
  for (const [id, content] of [
    [`${userId}-long`, 'ї'.repeat(100_000)],
    [`${userId}-short`, 'Добрий день'],
  ] as const) {
    await db
      .insertInto('conversation_sessions')
      .values({ id, user_id: userId, profile_id: 'default', name: 'Дім' })
      .execute();
    await db
      .insertInto('conversation_messages')
      .values({ session_id: id, role: 'user', content })
      .execute();
    const file = Buffer.from(content);
    await db
      .insertInto('session_files')
      .values({
        session_id: id,
        name: 'notes.txt',
        size_bytes: file.length,
        sha256: '0'.repeat(64),
        content: file,
        media_type: null,
      })
      .execute();
  }
  await db
    .insertInto('saved_searches')
    .values({ user_id: userId, name: 'Дім', search: '{}', every_minutes: 60 })
    .execute();
}

test('whichever query fails, an export ends there without a valid end, and keeps neither place nor process', async () => {
  let left = Infinity;
  const url = await start(async () => {
    left -= 1;
    if (left < 0) throw new Error('the connection broke');
  });
  await fill('u-iryna');
  const ends: string[] = [];
  while (ends.at(-1) !== 'whole') {
    assert.ok(ends.length < 100, ends.join());
    left = ends.length;
    const answer = await exported(url, 'u-iryna');
    const text = await answer.text().catch(() => undefined);
    if (text === undefined) ends.push('broken off');
    else if (answer.status === 500) ends.push('refused');
    else ends.push(JSON.parse(text).sessions.length === 2 ? 'whole' : 'less');
  }
  assert.deepEqual([...new Set(ends)], ['refused', 'broken off', 'whole']);
});

test('nobody is sent the head of an export, which would be made for nobody', async () => {
  const url = await start(async () => undefined);
  const before = await countAudits();
  const answer = await fetch(`${url}/me/export`, {
    method: 'HEAD',
    headers: { 'x-user': 'u-taras' },
  });
  assert.equal(answer.status, 405);
  assert.equal(await countAudits(), before);
});
