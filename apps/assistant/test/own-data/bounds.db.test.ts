import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createLogger, createServer } from '@oselya/kit';
import { ownDataRoutes } from '../../src/own-data/routes.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';

const { db } = await openAssistant();

/** A server with one place for exports, which believes whoever says who they are; its database answers when told to. */
async function start(answers: Promise<void>): Promise<string> {
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
      await answers;
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

const countAudits = async () => (await db.selectFrom('audit_log').select('id').execute()).length;

test('a user has one export at a time, and a process a bounded number, until one has ended or gone', async () => {
  const answers = gate();
  const url = await start(answers.opened);
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
  assert.match(await other.text(), /Too many exports are on their way/);
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
