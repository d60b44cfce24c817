import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Type } from 'typebox';
import { closeServer, listen, type ServerOptions, createDisconnectSignal } from '../src/index.ts';
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

test('bytes that are not HTTP get a problem and are not logged', async (context) => {
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

test('a silent connection ends with 408', async (context) => {
  const silent = await open(limitedUrl, context);
  await silent.ended;
  assert.match(silent.answer, /^HTTP\/1\.1 408 [^]+"code":"request_too_slow"/);
});

test('a slow request head ends with 408', async (context) => {
  for (const before of ['', 'GET /now HTTP/1.1\r\nhost: x\r\n\r\n']) {
    const slow = await open(limitedUrl, context);
    slow.socket.write(`${before}GET /now HTTP/1.1\r\nhost: x\r\nx-long: `);
    const timer = setInterval(() => slow.socket.write('a'), 20);
    context.after(() => clearInterval(timer));
    await slow.ended;
    assert.match(slow.answer, /HTTP\/1\.1 408 [^]+"code":"request_too_slow"/);
  }
});

test('an idle connection is closed', async (context) => {
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

test('the default limits are 30 s for a head and 60 s for an idle connection', async () => {
  const { server } = await serve();
  assert.ok(server.headersTimeout + 5000 <= 30_000);
  assert.ok(server.keepAliveTimeout + server.keepAliveTimeoutBuffer <= 60_000);
  assert.equal(server.requestTimeout, 0);
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

test('an unknown upgrade is ignored', async () => {
  const url = await upgrading();
  for (const protocol of ['h2c', 'websocket', 'cup']) {
    assert.equal(await statusOf(url, protocol), 200);
  }
});

test('an accepted upgrade gets its protocol', async () => {
  const url = await upgrading(({ headers }) => headers.upgrade === 'cup');
  assert.equal(await statusOf(url, 'cup'), 101);
  assert.equal(await statusOf(url, 'h2c'), 200);
});

test('an upgrade with several hosts is 400', async () => {
  const url = await upgrading(() => true);
  assert.equal(await statusOf(url, 'cup', ['a']), 101);
  assert.equal(await statusOf(url, 'cup', ['a', 'a']), 400);
});

test('the signal of an abandoned request is aborted', async (context) => {
  const app = await serve();
  const asked = Promise.withResolvers<void>();
  const handled = Promise.withResolvers<AbortSignal>();
  app.get('/', { schema: { hide: true } }, async (_request, reply) => {
    asked.resolve();
    // As a hook that authenticates the client elsewhere.
    await once(reply.raw, 'close');
    handled.resolve(createDisconnectSignal(reply));
    return {};
  });
  const { socket } = await open(await urlOf(app), context);
  socket.write('GET / HTTP/1.1\r\nHost: test\r\n\r\n');
  await asked.promise;
  socket.destroy();
  assert.equal((await handled.promise).aborted, true);
});

test('requests that exceed the shutdown time are cut off', { timeout: 60_000 }, async () => {
  const app = await serve();
  app.get('/', () => new Promise(() => undefined));
  const url = await urlOf(app);
  const started = once(app.server, 'request');
  const cutOff = assert.rejects(fetch(url));
  await started;
  await closeServer(app, 20);
  await cutOff;
});

test('a server that cannot listen fails with advice', async () => {
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
