import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, test, type TestContext } from 'node:test';
import { Type } from 'typebox';
import { createLogger, createServer, listen } from '../../src/index.ts';
import { SLOWEST_BODY } from '../../src/http/slow-body.ts';

const lines: string[] = [];
const app = await createServer({
  log: createLogger({
    level: 'info',
    service: 'test',
    destination: { write: (line) => void lines.push(line) },
  }),
  bodyLimit: 1024 * 1024,
  openapi: { title: 'Test', description: 'A test.', version: '1' },
});

/** What the stream has received, and whoever waits for a part of it. */
const stream = { bytes: 0, waiting: () => undefined as void };
await app.register(async (scope) => {
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
app.post('/json', { schema: { body: Type.Object({ a: Type.String() }) } }, async () => {
  begun.resolve();
  await answer.promise;
  return {};
});
const url = await listen(app, { host: '127.0.0.1', port: 0, variable: 'PORT' });
after(() => app.close());

/** A client that sends the head of a request, and then what it is told to. */
async function open(path: string, length: number) {
  const socket: Socket = connect(Number(new URL(url).port), '127.0.0.1');
  await once(socket, 'connect');
  const client = { socket, answer: '', ended: once(socket, 'close') };
  socket.on('data', (chunk: Buffer) => (client.answer += chunk.toString()));
  const type = path === '/json' ? 'application/json' : 'application/octet-stream';
  const began = once(app.server, 'request');
  socket.write(
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
  return { pass: () => context.mock.timers.tick(SLOWEST_BODY.milliseconds) };
}

test('a body that comes slowly but steadily may take as long as it needs', async (context) => {
  const clock = clockOf(context);
  const pieces = 4;
  const client = await open('/stream', pieces * SLOWEST_BODY.bytes);
  for (let piece = 1; piece <= pieces; piece += 1) {
    client.socket.write(Buffer.alloc(SLOWEST_BODY.bytes));
    await untilReceived(piece * SLOWEST_BODY.bytes);
    clock.pass();
  }
  await once(client.socket, 'data');
  assert.match(client.answer, /^HTTP\/1\.1 200 /);
  client.socket.destroy();
});

test('one that stalls, or comes more slowly, is 408 and the end of the connection', async (context) => {
  const clock = clockOf(context);
  for (const last of [0, SLOWEST_BODY.bytes / 2]) {
    const client = await open('/stream', 10 * SLOWEST_BODY.bytes);
    client.socket.write(Buffer.alloc(SLOWEST_BODY.bytes));
    await untilReceived(SLOWEST_BODY.bytes);
    clock.pass();
    client.socket.write(Buffer.alloc(last));
    await untilReceived(SLOWEST_BODY.bytes + last);
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

test('a body that is read into memory has the time once, and the log has its 408', async (context) => {
  const clock = clockOf(context);
  lines.length = 0;
  const client = await open('/json', 100);
  client.socket.write('{"a": "');
  clock.pass();
  await client.ended;
  assert.match(client.answer, /^HTTP\/1\.1 408 /);
  const [line, ...others] = lines.map((one) => JSON.parse(one) as Record<string, unknown>);
  assert.deepEqual([line?.['status'], line?.['route'], others], [408, '/json', []]);
  assert.ok(client.answer.includes(String(line?.['request_id'])));
});

test('who was answered and goes on sending is cut off without another answer', async (context) => {
  const clock = clockOf(context);
  const client = await open('/early', 100);
  await once(client.socket, 'data');
  clock.pass();
  await client.ended;
  assert.equal(client.answer.match(/HTTP\/1\.1/g)?.length, 1);
});

test('a request that is whole has all the time for its answer, and is watched no more', async (context) => {
  const clock = clockOf(context);
  const clear = context.mock.method(globalThis, 'clearInterval');
  const client = await open('/json', 9);
  client.socket.write('{"a":"b"}');
  await begun.promise;
  assert.equal(clear.mock.callCount(), 1);
  clock.pass();
  answer.resolve();
  await once(client.socket, 'data');
  assert.match(client.answer, /^HTTP\/1\.1 200 /);
  client.socket.destroy();
});
