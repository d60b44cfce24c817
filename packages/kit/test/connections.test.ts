import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { json } from 'node:stream/consumers';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Type } from 'typebox';
import { closeServer, listen, type ServerOptions, whenAbandoned } from '../src/index.ts';
import { open, serve, urlOf } from './serve.ts';

const malformed: [name: string, text: string, status: number, code: string][] = [
  ['no HTTP', 'hello\r\n\r\n', 400, 'malformed_request'],
  ['a header without a name', 'GET / HTTP/1.1\r\nhost: x\r\n: v\r\n\r\n', 400, 'malformed_request'],
  [
    'two lengths',
    'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n',
    400,
    'malformed_request',
  ],
  [
    'two hosts',
    'GET / HTTP/1.1\r\nhost: x\r\nHost: x\r\nconnection: close\r\n\r\n',
    400,
    'malformed_request',
  ],
  [
    'headers without end',
    `GET / HTTP/1.1\r\nhost: x\r\na: ${'x'.repeat(20_000)}\r\n\r\n`,
    431,
    'headers_too_large',
  ],
];

test('bytes that are not HTTP are answered with a problem, and logged without the bytes', async (context) => {
  const lines: string[] = [];
  const url = await urlOf(await serve({ lines, level: 'info' }));
  for (const [name, text, status, code] of malformed) {
    const connection = await open(url, context);
    connection.socket.write(text);
    await connection.ended;
    const { answer } = connection;
    assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} [^]+application/problem\\+json`), name);
    const body = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')));
    assert.deepEqual([body.status, body.code], [status, code]);
    assert.equal(body.request_id, /^x-request-id: (.+)\r$/m.exec(answer)?.[1]);
    const line = lines.find((one) => JSON.parse(one).request_id === body.request_id) ?? '';
    assert.equal(JSON.parse(line).status, status);
    assert.ok(!line.includes('hello'));
  }
});

const LIMITS = { headMs: 300, idleMs: 300, checkMs: 50 };
/** Node adds a second to the time of idle connections. */
const PAST_ALL_LIMITS_MS = LIMITS.idleMs + 1000 + LIMITS.headMs + LIMITS.checkMs;

const limited = await serve({ acceptsUpgrade: () => true, connectionLimits: LIMITS });
limited.get('/now', () => 'now');
limited.get('/later', async () => {
  await sleep(PAST_ALL_LIMITS_MS);
  return 'later';
});
limited.get('/stream', async (_request, reply) => {
  reply.hijack();
  reply.raw.write('first ');
  await sleep(PAST_ALL_LIMITS_MS);
  reply.raw.end('last');
});
limited.post('/upload', { schema: { body: Type.String() } }, ({ body }) => body);
limited.server.on('upgrade', (_request, socket) => {
  socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: cup\r\n\r\n');
  socket.pipe(socket);
});
const limitedUrl = await urlOf(limited);

test('a connection on which nothing comes is ended with 408', async (context) => {
  const silent = await open(limitedUrl, context);
  await silent.ended;
  assert.match(silent.answer, /^HTTP\/1\.1 408 [^]+"code":"request_too_slow"/);
});

test('so is one whose head comes letter by letter, also after an answer', async (context) => {
  for (const before of ['', 'GET /now HTTP/1.1\r\nhost: x\r\n\r\n']) {
    const slow = await open(limitedUrl, context);
    slow.socket.write(`${before}GET /now HTTP/1.1\r\nhost: x\r\nx-long: `);
    const timer = setInterval(() => slow.socket.write('a'), 20);
    context.after(() => clearInterval(timer));
    await slow.ended;
    assert.match(slow.answer, /HTTP\/1\.1 408 [^]+"code":"request_too_slow"/);
  }
});

test('one that is idle after an answer is ended without another word', async (context) => {
  const idle = await open(limitedUrl, context);
  idle.socket.write('GET /now HTTP/1.1\r\nhost: x\r\n\r\n');
  await idle.ended;
  assert.deepEqual(idle.answer.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200']);
});

for (const [what, text, expected] of [
  ['an answer that begins late', 'GET /later HTTP/1.1\r\nhost: x\r\n\r\n', /\r\nlater$/],
  [
    'an answer that is streamed slowly',
    'GET /stream HTTP/1.1\r\nhost: x\r\n\r\n',
    /first [^]*last/,
  ],
] as const) {
  test(`${what} has all the time`, async (context) => {
    const waiting = await open(limitedUrl, context);
    waiting.socket.write(text);
    await waiting.ended;
    assert.match(waiting.answer, /^HTTP\/1\.1 200 /);
    assert.match(waiting.answer, expected);
  });
}

test('so have a body that comes slowly, and a connection with another protocol', async (context) => {
  const upload = await open(limitedUrl, context);
  upload.socket.write(
    'POST /upload HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\r\n"a',
  );
  const other = await open(limitedUrl, context);
  other.socket.write('GET /now HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: cup\r\n\r\n');
  const idle = await open(limitedUrl, context);
  idle.socket.write('GET /now HTTP/1.1\r\nhost: x\r\n\r\n');
  await idle.ended;
  upload.socket.write('bc"');
  other.socket.write('tea');
  await Promise.all([once(upload.socket, 'data'), once(other.socket, 'data')]);
  assert.match(upload.answer, /^HTTP\/1\.1 200 [^]+abc$/);
  assert.match(other.answer, /tea$/);
});

test('by default a slow head has 30 s with the check, an idle connection 60 s, a whole request any time', async () => {
  const { server } = await serve();
  assert.ok(server.headersTimeout + 5000 <= 30_000);
  assert.ok(server.keepAliveTimeout + server.keepAliveTimeoutBuffer <= 60_000);
  assert.equal(server.requestTimeout, 0);
});

test('a request with an unknown expectation is answered as any other', async () => {
  const app = await serve({ bodyLimit: 10 });
  app.post('/echo', { schema: { body: Type.String() } }, ({ body }) => ({ body }));
  const url = await urlOf(app);
  const post = async (expect: string, body: string) => {
    const headers = { 'content-type': 'application/json', 'content-length': body.length, expect };
    const sent = request(`${url}/echo`, { method: 'POST', headers }).end(body);
    const [answer] = await once(sent, 'response');
    return { status: answer.statusCode, body: (await json(answer)) as object };
  };
  for (const expect of ['100-continue', '200-ok', 'tea; q=1', 'x'.repeat(1000)]) {
    assert.deepEqual(await post(expect, '"tea"'), { status: 200, body: { body: 'tea' } });
    const rejected = await post(expect, JSON.stringify('a'.repeat(20)));
    assert.equal(rejected.status, 413);
    assert.ok('type' in rejected.body);
  }
});

async function upgrading(acceptsUpgrade?: ServerOptions['acceptsUpgrade']): Promise<string> {
  const app = await serve(acceptsUpgrade && { acceptsUpgrade });
  app.get('/tea', () => ({ tea: true }));
  app.server.on('upgrade', (_request, socket) => {
    socket.end('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: cup\r\n\r\n');
  });
  return urlOf(app);
}

/** The status of a request that asks for another protocol. */
async function statusOf(url: string, upgrade: string, hosts = ['x']): Promise<number | undefined> {
  const named = hosts.flatMap((host) => ['host', host]);
  const headers = [...named, 'connection', 'upgrade', 'upgrade', upgrade];
  const sent = request(`${url}/tea`, { headers }).end();
  const [answer] = await Promise.race([once(sent, 'response'), once(sent, 'upgrade')]);
  answer.destroy();
  return answer.statusCode;
}

test('a request is answered as if it had not asked for another protocol', async () => {
  const url = await upgrading();
  for (const protocol of ['h2c', 'websocket', 'cup']) {
    assert.equal(await statusOf(url, protocol), 200);
  }
});

test('it gets the protocol where that is accepted', async () => {
  const url = await upgrading(({ headers }) => headers.upgrade === 'cup');
  assert.equal(await statusOf(url, 'cup'), 101);
  assert.equal(await statusOf(url, 'h2c'), 200);
});

test('a request with several hosts gets no protocol, and is 400', async () => {
  const url = await upgrading(() => true);
  assert.equal(await statusOf(url, 'cup', ['a']), 101);
  assert.equal(await statusOf(url, 'cup', ['a', 'a']), 400);
});

test('the signal of an abandoned request is aborted, also where the client went before', async (context) => {
  const app = await serve();
  const asked = Promise.withResolvers<void>();
  const handled = Promise.withResolvers<AbortSignal>();
  app.get('/', { schema: { hide: true } }, async (_request, reply) => {
    asked.resolve();
    // As a hook that authenticates the client elsewhere.
    await once(reply.raw, 'close');
    handled.resolve(whenAbandoned(reply));
    return {};
  });
  const { socket } = await open(await urlOf(app), context);
  socket.write('GET / HTTP/1.1\r\nHost: test\r\n\r\n');
  await asked.promise;
  socket.destroy();
  assert.equal((await handled.promise).aborted, true);
});

test('requests that do not end in time are cut off', { timeout: 60_000 }, async () => {
  const app = await serve();
  app.get('/', () => new Promise(() => undefined));
  const url = await urlOf(app);
  const started = once(app.server, 'request');
  const cutOff = assert.rejects(fetch(url));
  await started;
  await closeServer(app, 20);
  await cutOff;
});

test('a server that cannot listen fails with what to do', async () => {
  const taken = Number(new URL(await urlOf(await serve())).port);
  const cases: [host: string, port: number, message: RegExp][] = [
    ['127.0.0.1', taken, /is in use: .*SOME_PORT/],
    ['192.0.2.1', 0, /Cannot listen on 192\.0\.2\.1.*SOME_PORT/],
    // A label has at most 63 letters, so this fails without a resolver.
    ['x'.repeat(64), 0, /Cannot listen on x+:0 .*SOME_PORT/],
  ];
  for (const [host, port, message] of cases) {
    const listening = listen(await serve(), { host, port, variable: 'SOME_PORT' });
    await assert.rejects(listening, { name: 'StartError', message });
  }
});
