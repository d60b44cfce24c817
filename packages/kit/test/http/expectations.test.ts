import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { json } from 'node:stream/consumers';
import { after, test } from 'node:test';
import { createLogger, createServer } from '@oselya/kit';
import { Type } from 'typebox';

const app = await createServer({
  log: createLogger({ level: 'silent', service: 'test' }),
  bodyLimit: 10,
  openapi: { title: 'Test', description: 'A test.', version: '1' },
});
after(() => app.close());
app.post('/echo', { schema: { body: Type.String() } }, ({ body }) => ({ body }));
const url = await app.listen({ port: 0, host: '127.0.0.1' });

async function post(expect: string, body: string) {
  const headers = { 'content-type': 'application/json', 'content-length': body.length, expect };
  const sent = request(`${url}/echo`, { method: 'POST', headers });
  sent.end(body);
  const [answer] = await once(sent, 'response');
  return { status: answer.statusCode, body: await json(answer) };
}

for (const expect of ['100-continue', '200-ok', 'tea; q=1', 'x'.repeat(1000)]) {
  const name = expect.slice(0, 20);
  test(`a request that expects "${name}" is answered as any other`, async () => {
    assert.deepEqual(await post(expect, '"tea"'), { status: 200, body: { body: 'tea' } });
    const refused = await post(expect, JSON.stringify('a'.repeat(20)));
    assert.equal(refused.status, 413);
    assert.ok(refused.body instanceof Object && 'type' in refused.body);
  });
}
