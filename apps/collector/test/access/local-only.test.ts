import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createLogger, createServer } from '@oselya/kit';
import { rejectOtherPages } from '../../src/access/guard.ts';

async function serve(onlyThisMachine: boolean) {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1000,
    openapi: { title: 'Test', description: 'A test.', version: '1' },
  });
  rejectOtherPages(app, { onlyThisMachine });
  app.get('/', () => 'read');
  app.post('/', () => 'changed');
  after(() => app.close());
  return app;
}

const local = await serve(true);
const open = await serve(false);
const own = '127.0.0.1:8001';

for (const [method, headers, onLocal, onOpen] of [
  ['GET', { host: own }, 200, 200],
  ['GET', { host: 'localhost:8001' }, 200, 200],
  ['GET', { host: '[::1]:8001' }, 200, 200],
  ['GET', { host: 'evil.test' }, 421, 200],
  ['GET', { host: '127.0.0.1.evil.test' }, 421, 200],
  ['POST', { host: 'evil.test', origin: 'http://evil.test' }, 421, 200],
  ['POST', { host: own }, 200, 200],
  ['POST', { host: own, origin: 'http://127.0.0.1:8001' }, 200, 200],
  ['POST', { host: own, origin: 'http://127.0.0.1:8000' }, 403, 403],
  ['POST', { host: own, origin: 'null' }, 403, 403],
  ['POST', { host: own, 'sec-fetch-site': 'same-site' }, 403, 403],
  ['POST', { host: own, 'sec-fetch-site': 'cross-site' }, 403, 403],
  ['POST', { host: own, 'sec-fetch-site': 'same-origin' }, 200, 200],
  ['GET', { host: own, 'sec-fetch-site': 'cross-site' }, 200, 200],
] as const) {
  test(`${method} with ${JSON.stringify(headers)} is ${onLocal}, or ${onOpen} where others may come`, async () => {
    assert.equal((await local.inject({ method, url: '/', headers })).statusCode, onLocal);
    assert.equal((await open.inject({ method, url: '/', headers })).statusCode, onOpen);
  });
}
