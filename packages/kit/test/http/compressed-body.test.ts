import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { Type } from 'typebox';
import { createLogger, createServer, listen } from '../../src/index.ts';

const LIMIT = 100_000;

const app = await createServer({
  log: createLogger({ level: 'silent', service: 'test' }),
  bodyLimit: LIMIT,
  openapi: { title: 'Test', description: 'A test.', version: '1' },
});
const body = Type.Object({ text: Type.String() });
app.post(
  '/open',
  { schema: { body }, config: { acceptsCompressed: true } },
  ({ body: { text } }) => ({
    length: text.length,
  }),
);
app.post('/plain', { schema: { body } }, () => ({}));
app.get('/none', () => ({}));
const url = await listen(app, { host: '127.0.0.1', port: 0, variable: 'PORT' });
after(() => app.close());

async function send(path: string, content: Uint8Array, encoding: string) {
  const headers = { 'content-type': 'application/json', 'content-encoding': encoding };
  const answer = await fetch(url + path, { method: 'POST', headers, body: Buffer.from(content) });
  return {
    status: answer.status,
    headers: answer.headers,
    body: (await answer.json()) as { code?: string; detail?: string; length?: number },
  };
}
const json = (length: number) => Buffer.from(JSON.stringify({ text: 'ї'.repeat(length) }));

test('a compressed body is read where its route accepts that', async () => {
  for (const [encoding, compress] of [
    ['gzip', gzipSync],
    ['GZIP', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
    ['identity', (content: Buffer) => content],
  ] as const) {
    const answer = await send('/open', compress(json(40_000)), encoding);
    assert.deepEqual([answer.status, answer.body], [200, { length: 40_000 }], encoding);
  }
});

test('a body that is too large once decompressed is 413, however small it was', async () => {
  // A hundred megabytes come in a hundred kilobytes, of which a part is enough to know.
  const bomb = gzipSync(Buffer.alloc(90_000_000, ' '));
  assert.ok(bomb.length < LIMIT);
  for (const content of [bomb, gzipSync(json(LIMIT / 2))]) {
    const answer = await send('/open', content, 'gzip');
    assert.deepEqual([answer.status, answer.body.code], [413, 'body_too_large']);
  }
  assert.equal((await send('/open', gzipSync(json(1)), 'gzip')).status, 200);
});

test('a body that is not as it is said to be compressed is 400', async () => {
  const whole = gzipSync(json(1000));
  for (const content of [json(10), whole.subarray(0, whole.length - 12), Buffer.alloc(0)]) {
    const answer = await send('/open', content, 'gzip');
    assert.deepEqual([answer.status, answer.body.code], [400, 'malformed_request']);
  }
  const { body: problem } = await send('/open', json(10), 'gzip');
  assert.equal(
    problem.detail,
    'The body is not encoded as its header Content-Encoding says: gzip.',
  );
});

test('an encoding that a route does not accept is 415, with those that it does', async () => {
  for (const [path, encoding, accepted] of [
    ['/open', 'zstd', 'gzip, deflate, br'],
    ['/open', 'gzip, gzip', 'gzip, deflate, br'],
    ['/plain', 'gzip', 'identity'],
  ] as const) {
    const answer = await send(path, gzipSync(json(1)), encoding);
    assert.deepEqual([answer.status, answer.body.code], [415, 'unsupported_media_type'], path);
    assert.equal(answer.headers.get('accept-encoding'), accepted);
    assert.ok(answer.body.detail?.endsWith(`${accepted}.`), answer.body.detail);
  }
});
