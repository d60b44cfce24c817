import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { Type } from 'typebox';
import { closeServer, createDisconnectSignal, listen, MIN_BODY_RATE } from '../src/index.ts';
import { open, serve, listenOnFreePort } from './serve.ts';

test('bytes that are not HTTP get a problem and are not logged', async (context) => {
  const lines: string[] = [];
  const url = await listenOnFreePort(await serve({ lines, level: 'info' }));
  const head = 'GET / HTTP/1.1\r\nhost: x\r\n';
  for (const [text, status, code] of [
    ['hello\r\n\r\n', 400, 'malformed_request'],
    [`${head}: v\r\n\r\n`, 400, 'malformed_request'],
    [`${head}content-length: 1\r\ncontent-length: 2\r\n\r\n`, 400, 'malformed_request'],
    [`${head}Host: x\r\nconnection: close\r\n\r\n`, 400, 'malformed_request'],
    ['GET / HTTP/1.1\r\nconnection: close\r\n\r\n', 400, 'malformed_request'],
    [`${head}a: ${'x'.repeat(20_000)}\r\n\r\n`, 431, 'headers_too_large'],
  ] as const) {
    const connection = await open(url, context);
    connection.socket.write(text);
    await connection.closeEvent;
    const { answer } = connection;
    assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} [^]+application/problem\\+json`), text);
    const body = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')));
    assert.deepEqual([body.status, body.code], [status, code]);
    assert.equal(body.request_id, /^x-request-id: (.+)\r$/m.exec(answer)?.[1]);
    const line = lines.find((logLine) => JSON.parse(logLine).request_id === body.request_id) ?? '';
    assert.equal(JSON.parse(line).status, status);
    assert.ok(!line.includes('hello'));
  }
});

const LIMITS = { headMs: 300, idleMs: 300, checkMs: 50 };
/** Time longer than all limits. Node adds one second to the limit of idle connections. */
const PAST_ALL_LIMITS_MS = LIMITS.idleMs + 1000 + LIMITS.headMs + LIMITS.checkMs;

const limitedServer = await serve({ connectionLimits: LIMITS });
limitedServer.get('/now', () => 'now');
limitedServer.get('/later', async () => {
  await sleep(PAST_ALL_LIMITS_MS);
  return 'later';
});
limitedServer.get('/stream', async (_request, reply) => {
  reply.hijack();
  reply.raw.write('first ');
  await sleep(PAST_ALL_LIMITS_MS);
  reply.raw.end('last');
});
const limitedUrl = await listenOnFreePort(limitedServer);
const formatGetRequest = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`;

const GET_NOW = formatGetRequest('/now');
for (const [title, text, expected] of [
  ['a silent connection ends with 408', '', /^HTTP\/1\.1 408 [^]+"code":"request_too_slow"/],
  [
    'a slow request head ends with 408',
    'GET /now HTTP/1.1\r\nhost: x\r\nslow: ',
    /^HTTP\/1\.1 408 /,
  ],
  ['a slow second head ends with 408', `${GET_NOW}GET /now HTTP/1.1\r\nslow: `, /HTTP\/1\.1 408 /],
  ['an idle connection is closed', GET_NOW, /^HTTP\/1\.1 200 [^]*\r\n\r\nnow$/],
  [
    'a late response has no time limit',
    formatGetRequest('/later'),
    /^HTTP\/1\.1 200 [^]*\r\nlater$/,
  ],
  ['a slow response has no time limit', formatGetRequest('/stream'), /200 [^]*first [^]*last/],
] as const) {
  test(title, async (context) => {
    const connection = await open(limitedUrl, context);
    connection.socket.write(text);
    if (text.endsWith('slow: ')) {
      const timer = setInterval(() => connection.socket.write('a'), 20);
      context.after(() => clearInterval(timer));
    }
    await connection.closeEvent;
    assert.match(connection.answer, expected);
  });
}

test('the default limits are 30 s for a head and 60 s for an idle connection', async () => {
  const { server } = await serve();
  assert.ok(server.headersTimeout + 5000 <= 30_000);
  assert.ok(server.keepAliveTimeout + server.keepAliveTimeoutBuffer <= 60_000);
  assert.equal(server.requestTimeout, 0);
});

test('an accepted upgrade gets its protocol, and others are ignored', async () => {
  const getStatus = async (acceptedProtocol: string | null, upgrade: string, hosts: string[]) => {
    const app = await serve({
      ...(acceptedProtocol !== null && {
        acceptsUpgrade: ({ headers }) => headers.upgrade === acceptedProtocol,
      }),
    });
    app.get('/tea', () => ({ tea: true }));
    app.server.on('upgrade', (_request, socket) => {
      socket.end('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: cup\r\n\r\n');
    });
    const headers = [...hosts.flatMap((host) => ['host', host]), 'connection', 'upgrade'];
    const options = { headers: [...headers, 'upgrade', upgrade] };
    const upgradeRequest = request(`${await listenOnFreePort(app)}/tea`, options).end();
    const [response] = await Promise.race([
      once(upgradeRequest, 'response'),
      once(upgradeRequest, 'upgrade'),
    ]);
    response.destroy();
    return response.statusCode;
  };
  for (const [acceptedProtocol, upgrade, hosts, status] of [
    [null, 'h2c', ['x'], 200],
    [null, 'websocket', ['x'], 200],
    ['cup', 'cup', ['x'], 101],
    ['cup', 'h2c', ['x'], 200],
    ['cup', 'cup', ['x', 'x'], 400],
  ] as const) {
    assert.equal(
      await getStatus(acceptedProtocol, upgrade, [...hosts]),
      status,
      `${acceptedProtocol} ${upgrade}`,
    );
  }
});

test('the signal of an abandoned request is aborted', async (context) => {
  const app = await serve();
  const requestReceived = Promise.withResolvers<void>();
  const requestHandled = Promise.withResolvers<AbortSignal>();
  app.get('/', { schema: { hide: true } }, async (_request, reply) => {
    requestReceived.resolve();
    await once(reply.raw, 'close');
    requestHandled.resolve(createDisconnectSignal(reply));
    return {};
  });
  const { socket } = await open(await listenOnFreePort(app), context);
  socket.write(formatGetRequest('/'));
  await requestReceived.promise;
  socket.destroy();
  assert.equal((await requestHandled.promise).aborted, true);
});

test('requests that exceed the shutdown time are aborted', { timeout: 60_000 }, async () => {
  const app = await serve();
  app.get('/', () => new Promise(() => undefined));
  const url = await listenOnFreePort(app);
  const requestStarted = once(app.server, 'request');
  const abortedFetch = assert.rejects(fetch(url));
  await requestStarted;
  await closeServer(app, 20);
  await abortedFetch;
});

test('a server that cannot listen fails with advice', async () => {
  const usedPort = Number(new URL(await listenOnFreePort(await serve())).port);
  for (const [host, port, message] of [
    ['127.0.0.1', usedPort, /is in use: .*SOME_PORT/],
    ['192.0.2.1', 0, /Cannot listen on 192\.0\.2\.1.*SOME_PORT/],
    // A DNS label has at most 63 characters, so the name fails without a DNS server.
    ['x'.repeat(64), 0, /Cannot listen on x+:0 .*SOME_PORT/],
  ] as const) {
    const listenResult = listen(await serve(), { host, port, variable: 'SOME_PORT' });
    await assert.rejects(listenResult, { name: 'StartError', message });
  }
});

const BODY_LIMIT = 100_000;
const bodyServer = await serve({ bodyLimit: BODY_LIMIT });
const textSchema = { body: Type.Object({ text: Type.String() }) };
bodyServer.post(
  '/open',
  { schema: textSchema, config: { acceptsCompressed: true } },
  ({ body: { text } }) => ({ length: text.length }),
);
bodyServer.post('/plain', { schema: textSchema }, () => ({}));
bodyServer.post('/bare', ({ body }) => ({ body: body ?? null }));
bodyServer.post('/full', { schema: { body: Type.Object({}) } }, () => ({}));
const bodyServerUrl = await listenOnFreePort(bodyServer);

const createJsonBody = (length: number) =>
  Buffer.from(JSON.stringify({ text: 'ї'.repeat(length) }));
const largeBody = createJsonBody(40_000);
const compressedBody = gzipSync(createJsonBody(1000));
const LENGTH = { length: 40_000 };
const MALFORMED = { code: 'malformed_request' };
const UNSUPPORTED = { code: 'unsupported_media_type' };

for (const [title, path, content, encoding, status, expected] of [
  ['gzip is read', '/open', gzipSync(largeBody), 'GZIP', 200, LENGTH],
  ['deflate is read', '/open', deflateSync(largeBody), 'deflate', 200, LENGTH],
  ['brotli is read', '/open', brotliCompressSync(largeBody), 'br', 200, LENGTH],
  ['identity is read', '/open', largeBody, 'identity', 200, LENGTH],
  ['a bomb is 413', '/open', gzipSync(Buffer.alloc(90_000_000, ' ')), 'gzip', 413, {}],
  ['a large body is 413', '/open', gzipSync(createJsonBody(BODY_LIMIT / 2)), 'gzip', 413, {}],
  ['an uncompressed body is 400', '/open', createJsonBody(10), 'gzip', 400, MALFORMED],
  ['a truncated body is 400', '/open', compressedBody.subarray(0, -12), 'gzip', 400, MALFORMED],
  ['an empty body is 400', '/open', Buffer.alloc(0), 'gzip', 400, MALFORMED],
  ['another encoding is 415', '/open', compressedBody, 'zstd', 415, UNSUPPORTED],
  ['two encodings are 415', '/open', compressedBody, 'gzip, gzip', 415, UNSUPPORTED],
  ['an unexpected encoding is 415', '/plain', compressedBody, 'gzip', 415, UNSUPPORTED],
] as const) {
  test(`compressed bodies: ${title}`, async () => {
    const response = await fetch(bodyServerUrl + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-encoding': encoding },
      body: Buffer.from(content),
    });
    const body = (await response.json()) as { detail?: string };
    assert.equal(response.status, status);
    assert.partialDeepStrictEqual(body, expected);
    if (status === 400) assert.match(body.detail ?? '', /^The body is not encoded as the header/);
    const acceptedEncodings = path === '/open' ? 'gzip, deflate, br' : 'identity';
    if (status !== 415) return;
    assert.equal(response.headers.get('accept-encoding'), acceptedEncodings);
    assert.ok(body.detail?.endsWith(`${acceptedEncodings}.`), body.detail);
  });
}

test('a body is ignored or required as its route declares', async () => {
  const [jsonType, formType] = ['application/json', 'application/x-www-form-urlencoded'];
  for (const [path, contentType, content, status] of [
    ['/bare', undefined, undefined, 200],
    ['/bare', jsonType, undefined, 200],
    ['/bare', formType, '', 200],
    ['/bare', jsonType, '{', 200],
    ['/bare', 'text/plain', 'a', 200],
    ['/bare', jsonType, `"${'a'.repeat(BODY_LIMIT)}"`, 200],
    ['/nowhere', jsonType, '{', 404],
    ['/full', jsonType, '{}', 200],
    ['/full', jsonType, '', 400],
    ['/full', formType, '', 415],
    ['/full', undefined, undefined, 422],
  ] as const) {
    const response = await fetch(bodyServerUrl + path, {
      method: 'POST',
      headers: contentType === undefined ? {} : { 'content-type': contentType },
      ...(content !== undefined && { body: content }),
    });
    assert.equal(response.status, status, `POST ${path} with ${content} as ${contentType}`);
  }
});

const slowServer = await serve({ bodyLimit: 1024 * 1024 });
const upload = { bytes: 0, onChunk: () => undefined as void };
await slowServer.register(async (scope) => {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
  scope.post('/stream', async ({ raw }) => {
    upload.bytes = 0;
    for await (const chunk of raw) {
      upload.bytes += (chunk as Buffer).length;
      upload.onChunk();
    }
    return { bytes: upload.bytes };
  });
  scope.post('/early', ({ raw }, reply) => {
    raw.resume();
    return reply.status(200).send({});
  });
});
const slowServerUrl = await listenOnFreePort(slowServer);

/** Sends the head of a request, and waits until the server has received it. */
async function startRequest(context: TestContext, path: string, length: number) {
  const client = await open(slowServerUrl, context);
  const requestStarted = once(slowServer.server, 'request');
  const contentType = 'content-type: application/octet-stream';
  client.socket.write(
    `POST ${path} HTTP/1.1\r\nhost: x\r\n${contentType}\r\ncontent-length: ${length}\r\n\r\n`,
  );
  await requestStarted;
  return client;
}

const waitUntilReceived = (bytes: number) =>
  new Promise<void>((resolve) => {
    upload.onChunk = () => void (upload.bytes >= bytes && resolve());
    upload.onChunk();
  });

/** Mocks the clock of the body rate check. Returns a function that advances the clock by one period. */
function mockPeriods(context: TestContext): () => void {
  context.mock.timers.enable({ apis: ['setInterval'] });
  return () => context.mock.timers.tick(MIN_BODY_RATE.milliseconds);
}

test('a slow but steady body has no time limit', async (context) => {
  const passPeriod = mockPeriods(context);
  const client = await startRequest(context, '/stream', 3 * MIN_BODY_RATE.bytes);
  for (let pieceCount = 1; pieceCount <= 3; pieceCount += 1) {
    client.socket.write(Buffer.alloc(MIN_BODY_RATE.bytes));
    await waitUntilReceived(pieceCount * MIN_BODY_RATE.bytes);
    passPeriod();
  }
  await once(client.socket, 'data');
  assert.match(client.answer, /^HTTP\/1\.1 200 /);
});

test('a stalled body is 408 and closes the connection', async (context) => {
  const passPeriod = mockPeriods(context);
  const client = await startRequest(context, '/stream', 10 * MIN_BODY_RATE.bytes);
  client.socket.write(Buffer.alloc(MIN_BODY_RATE.bytes));
  await waitUntilReceived(MIN_BODY_RATE.bytes);
  passPeriod();
  client.socket.write(Buffer.alloc(MIN_BODY_RATE.bytes / 2));
  await waitUntilReceived(1.5 * MIN_BODY_RATE.bytes);
  assert.equal(client.answer, '');
  passPeriod();
  await client.closeEvent;
  assert.match(client.answer, /^HTTP\/1\.1 408 [^]*"code":"request_too_slow"/);
  const id = /^x-request-id: (.+)\r$/m.exec(client.answer)?.[1];
  assert.ok(id !== undefined && client.answer.includes(`"request_id":"${id}"`));
  assert.match(client.answer, /^connection: close\r$/m);
});

test('a client that continues to send after its response is disconnected', async (context) => {
  const passPeriod = mockPeriods(context);
  const client = await startRequest(context, '/early', 100);
  await once(client.socket, 'data');
  passPeriod();
  await client.closeEvent;
  assert.equal(client.answer.match(/HTTP\/1\.1/g)?.length, 1);
});

test('an injected request leaves no timer', async (context) => {
  const passPeriod = mockPeriods(context);
  const headers = { 'content-type': 'application/octet-stream' };
  for (const url of ['/stream', '/early', '/none']) {
    await slowServer.inject({ method: 'POST', url, headers, payload: 'x' });
  }
  // A rate check would fail here, because an injected request has no network socket.
  passPeriod();
});
