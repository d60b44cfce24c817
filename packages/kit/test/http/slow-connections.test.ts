import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Type } from 'typebox';
import { createLogger, createServer, listen } from '../../src/index.ts';

const LIMITS = { headMs: 300, idleMs: 300, checkMs: 50 };
/** Node adds a second to the time of idle connections. */
const PAST_ALL_LIMITS_MS = LIMITS.idleMs + 1000 + LIMITS.headMs + LIMITS.checkMs;

const quiet = {
  log: createLogger({ level: 'silent', service: 'test' }),
  bodyLimit: 1000,
  openapi: { title: 'Test', description: 'A test.', version: '1' },
};
const app = await createServer({
  ...quiet,
  acceptsUpgrade: () => true,
  connectionLimits: LIMITS,
});
app.get('/now', () => 'now');
app.get('/later', async () => {
  await sleep(PAST_ALL_LIMITS_MS);
  return 'later';
});
app.get('/stream', async (_request, reply) => {
  reply.hijack();
  reply.raw.write('first ');
  await sleep(PAST_ALL_LIMITS_MS);
  reply.raw.end('last');
});
app.post('/upload', { schema: { body: Type.String() } }, ({ body }) => body);
app.server.on('upgrade', (_request, socket) => {
  socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: cup\r\n\r\n');
  socket.pipe(socket);
});
const port = Number(
  new URL(await listen(app, { host: '127.0.0.1', port: 0, variable: 'PORT' })).port,
);
after(() => app.close());

/** A connection, with what came on it. */
async function open(context: TestContext) {
  const socket = connect(port, '127.0.0.1');
  const connection = { socket, answer: '', ended: once(socket, 'close') };
  socket.on('data', (chunk: Buffer) => (connection.answer += chunk.toString()));
  // The other end may go while it is written to.
  socket.on('error', () => undefined);
  context.after(() => socket.destroy());
  await once(socket, 'connect');
  return connection;
}

test('a connection on which nothing comes is ended with 408', async (context) => {
  const silent = await open(context);
  await silent.ended;
  assert.match(silent.answer, /^HTTP\/1\.1 408 [^]+"code":"request_too_slow"/);
});

test('so is one whose head comes letter by letter, also after an answer', async (context) => {
  for (const before of ['', 'GET /now HTTP/1.1\r\nhost: x\r\n\r\n']) {
    const slow = await open(context);
    slow.socket.write(`${before}GET /now HTTP/1.1\r\nhost: x\r\nx-long: `);
    const timer = setInterval(() => slow.socket.write('a'), 20);
    context.after(() => clearInterval(timer));
    await slow.ended;
    assert.match(slow.answer, /HTTP\/1\.1 408 [^]+"code":"request_too_slow"/);
  }
});

test('one that is idle after an answer is ended without another word', async (context) => {
  const idle = await open(context);
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
    const waiting = await open(context);
    waiting.socket.write(text);
    await waiting.ended;
    assert.match(waiting.answer, /^HTTP\/1\.1 200 /);
    assert.match(waiting.answer, expected);
  });
}

test('so have a body that comes slowly, and a connection with another protocol', async (context) => {
  const upload = await open(context);
  upload.socket.write(
    'POST /upload HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\r\n"a',
  );
  const other = await open(context);
  other.socket.write('GET /now HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: cup\r\n\r\n');
  const idle = await open(context);
  idle.socket.write('GET /now HTTP/1.1\r\nhost: x\r\n\r\n');
  await idle.ended;
  upload.socket.write('bc"');
  other.socket.write('tea');
  await Promise.all([once(upload.socket, 'data'), once(other.socket, 'data')]);
  assert.match(upload.answer, /^HTTP\/1\.1 200 [^]+abc$/);
  assert.match(other.answer, /tea$/);
});

test('by default a slow head has 30 s with the check, an idle connection 60 s, a whole request any time', async () => {
  const { server } = await createServer(quiet);
  assert.ok(server.headersTimeout + 5000 <= 30_000);
  assert.ok(server.keepAliveTimeout + server.keepAliveTimeoutBuffer <= 60_000);
  assert.equal(server.requestTimeout, 0);
});
