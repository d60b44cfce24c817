import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger, createServer } from '@oselya/kit';
import { type Files, fileRoutes } from '../../src/files/index.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';

test('a user has six files on their way at once, which leaves places for the others', async (t) => {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1024,
    openapi: { title: 'Test', description: 'Test', version: '1' },
  });
  t.after(() => app.close());
  app.decorateRequest('user', null);
  app.addHook('onRequest', (request, _reply, done) => {
    request.user = { id: String(request.headers['x-user']) } as never;
    done();
  });
  const held = gate();
  let reading = 0;
  const files = {
    readFile: async () => {
      reading += 1;
      await held.opened;
      return { content: Buffer.from('x'), mediaType: 'text/plain' };
    },
  };
  await fileRoutes(app, files as unknown as Files);
  const ask = (user: string) =>
    app
      .inject({ method: 'GET', url: '/sessions/s/files/a', headers: { 'x-user': user } })
      .then((answer) => answer);

  const hers = Array.from({ length: 6 }, () => ask('u-olena'));
  await until(() => reading === 6);
  const refused = await ask('u-olena');
  assert.equal(refused.statusCode, 503);
  assert.equal(refused.headers['retry-after'], '2');
  assert.match(refused.json().detail, /^6 files of yours are on their way.*then try again/);
  const his = ask('u-taras');
  await until(() => reading === 7);

  held.open();
  for (const answer of await Promise.all([...hers, his])) assert.equal(answer.statusCode, 200);
  assert.equal((await ask('u-olena')).statusCode, 200);
});
