import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test, type TestContext } from 'node:test';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { Type } from 'typebox';
import { MIN_BODY_RATE } from '../src/index.ts';
import { open, serve, urlOf } from './serve.ts';

const LIMIT = 100_000;

const app = await serve({ bodyLimit: LIMIT });
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
const url = await urlOf(app);

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

test('a compressed body is read if its route accepts it', async () => {
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

test('a body that does not match its encoding is 400', async () => {
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

test('an unsupported encoding is 415 and names the supported ones', async () => {
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

const JSON_TYPE = 'application/json';
const FORM_TYPE = 'application/x-www-form-urlencoded';
const undeclared = [
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
] as const;

test('a body is ignored or required as its route declares', async () => {
  const bare = await serve({ bodyLimit: 100 });
  bare.post('/bare', (request) => ({ body: request.body ?? null }));
  bare.post('/full', { schema: { body: Type.Object({}) } }, () => ({}));
  const bareUrl = await urlOf(bare);
  for (const [path, type, content, status] of undeclared) {
    const answer = await fetch(`${bareUrl}${path}`, {
      method: 'POST',
      headers: type === undefined ? {} : { 'content-type': type },
      ...(content === undefined ? {} : { body: content }),
    });
    assert.equal(answer.status, status, `POST ${path} with ${content} as ${type}`);
  }
});

const lines: string[] = [];
const slow = await serve({ lines, level: 'info', bodyLimit: 1024 * 1024 });

/** What the stream has received, and whoever waits for a part of it. */
const stream = { bytes: 0, waiting: () => undefined as void };
await slow.register(async (scope) => {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
  scope.post('/stream', async ({ raw }) => {
    stream.bytes = 0;
    for await (const chunk of raw) {
      stream.bytes += (chunk as Buffer).length;
      stream.waiting();
    }
    return { bytes: stream.bytes };
  });
  // Answered at its head, whatever is still to come.
  scope.post('/early', ({ raw }, reply) => {
    raw.resume();
    return reply.status(200).send({});
  });
});
const [begun, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
slow.post('/json', { schema: { body: Type.Object({ a: Type.String() }) } }, async () => {
  begun.resolve();
  await answer.promise;
  return {};
});
const slowUrl = await urlOf(slow);

/** A client that sends the head of a request, and then what the test says. */
async function begin(context: TestContext, path: string, length: number) {
  const client = await open(slowUrl, context);
  const type = path === '/json' ? 'application/json' : 'application/octet-stream';
  const began = once(slow.server, 'request');
  client.socket.write(
    `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: ${type}\r\ncontent-length: ${length}\r\n\r\n`,
  );
  await began;
  return client;
}

const untilReceived = (bytes: number) =>
  new Promise<void>((resolve) => {
    stream.waiting = () => void (stream.bytes >= bytes && resolve());
    stream.waiting();
  });

/** Of the two clocks only the one that the limit goes by is the test's: it runs where it is told to. */
function clockOf(context: TestContext) {
  context.mock.timers.enable({ apis: ['setInterval'] });
  return { pass: () => context.mock.timers.tick(MIN_BODY_RATE.milliseconds) };
}

test('a slow but steady body has no time limit', async (context) => {
  const clock = clockOf(context);
  const pieces = 4;
  const client = await begin(context, '/stream', pieces * MIN_BODY_RATE.bytes);
  for (let piece = 1; piece <= pieces; piece += 1) {
    client.socket.write(Buffer.alloc(MIN_BODY_RATE.bytes));
    await untilReceived(piece * MIN_BODY_RATE.bytes);
    clock.pass();
  }
  await once(client.socket, 'data');
  assert.match(client.answer, /^HTTP\/1\.1 200 /);
  client.socket.destroy();
});

test('a stalled body is 408 and closes the connection', async (context) => {
  const clock = clockOf(context);
  for (const last of [0, MIN_BODY_RATE.bytes / 2]) {
    const client = await begin(context, '/stream', 10 * MIN_BODY_RATE.bytes);
    client.socket.write(Buffer.alloc(MIN_BODY_RATE.bytes));
    await untilReceived(MIN_BODY_RATE.bytes);
    clock.pass();
    client.socket.write(Buffer.alloc(last));
    await untilReceived(MIN_BODY_RATE.bytes + last);
    assert.equal(client.answer, '');
    clock.pass();
    await client.ended;
    assert.match(client.answer, /^HTTP\/1\.1 408 /);
    assert.match(client.answer, /"code":"request_too_slow"/);
    const id = /^x-request-id: (.+)\r$/m.exec(client.answer)?.[1];
    assert.ok(id !== undefined && client.answer.includes(`"request_id":"${id}"`));
    assert.match(client.answer, /^connection: close\r$/m);
  }
});

test('a client that sends on after its answer is cut off', async (context) => {
  const clock = clockOf(context);
  const client = await begin(context, '/early', 100);
  await once(client.socket, 'data');
  clock.pass();
  await client.ended;
  assert.equal(client.answer.match(/HTTP\/1\.1/g)?.length, 1);
});

test('an injected request leaves no timer', async (context) => {
  const clock = clockOf(context);
  const headers = { 'content-type': 'application/octet-stream' };
  for (const path of ['/stream', '/early', '/none']) {
    await slow.inject({ method: 'POST', url: path, headers, payload: 'x' });
  }
  // The check of a rate would fail here, because the socket is not a real one.
  clock.pass();
});
