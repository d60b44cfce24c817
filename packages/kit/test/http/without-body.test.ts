import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Type } from 'typebox';
import { createLogger, createServer, listen } from '../../src/index.ts';

const app = await createServer({
  log: createLogger({ level: 'silent', service: 'test' }),
  bodyLimit: 100,
  openapi: { title: 'Test', description: 'A test.', version: '1' },
});
app.post('/bare', ({ body }) => ({ body: body ?? null }));
app.post('/full', { schema: { body: Type.Object({}) } }, () => ({}));
const url = await listen(app, { host: '127.0.0.1', port: 0, variable: 'PORT' });
after(() => app.close());

const post = async (path: string, type: string | undefined, body: string | undefined) => {
  const answer = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: type === undefined ? {} : { 'content-type': type },
    ...(body === undefined ? {} : { body }),
  });
  return answer.status;
};

const JSON_TYPE = 'application/json';
const FORM_TYPE = 'application/x-www-form-urlencoded';
for (const [path, type, body, status] of [
  ['/bare', undefined, undefined, 200],
  ['/bare', JSON_TYPE, undefined, 200],
  ['/bare', JSON_TYPE, '', 200],
  ['/bare', FORM_TYPE, '', 200],
  ['/bare', 'text/plain;charset=UTF-8', '', 200],
  ['/bare', JSON_TYPE, '{}', 200],
  ['/bare', JSON_TYPE, '{', 200],
  ['/bare', FORM_TYPE, 'a=b', 200],
  ['/bare', 'text/plain', 'a', 200],
  ['/bare', JSON_TYPE, `"${'a'.repeat(1000)}"`, 200],
  ['/nowhere', JSON_TYPE, '{', 404],
  ['/full', JSON_TYPE, '{}', 200],
  ['/full', JSON_TYPE, '', 400],
  ['/full', FORM_TYPE, '', 415],
  ['/full', undefined, undefined, 422],
] as const) {
  test(`POST ${path} with ${JSON.stringify(body)} as ${type} is ${status}`, async () => {
    assert.equal(await post(path, type, body), status);
  });
}
