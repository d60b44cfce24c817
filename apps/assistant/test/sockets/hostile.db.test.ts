import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { openAssistant } from '../helpers/assistant.ts';
import { SocketClient } from '../helpers/socket-client.ts';
import { until } from '../helpers/until.ts';
import { listening, person } from './people.ts';

const { lines, instance, signedIn } = await openAssistant({ IDP_USER_MAX_AGE_SECONDS: '3600' });
const app = await instance();
const url = await listening(app);
const { sid } = await signedIn(app, person('u-1', ['svc.profiles.use']));

/** Fewer than the refusals of a minute, so that each frame is answered. */
const FRAMES_PER_SOCKET = 20;
const SOCKETS = 25;

const types = ['ping', 'session.create', 'session.open', 'message.send', '__proto__', ''];

/** Texts that have broken parsers, databases and logs. */
const oddText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 400 }),
  fc.constantFrom(
    '\u0000',
    '\ud800',
    "' or 1=1 --",
    '../../etc/passwd',
    '${7*7}',
    '\u202e',
    'a'.repeat(10_000),
  ),
);

/** Values that have the names of the protocol, and anything as their members. */
const almost = fc
  .record(
    {
      type: fc.oneof(fc.constantFrom(...types), fc.anything()),
      id: fc.oneof(oddText, fc.anything()),
      session_id: fc.oneof(oddText, fc.anything()),
      profile_id: fc.oneof(oddText, fc.constant('default'), fc.anything()),
      name: fc.oneof(oddText, fc.anything()),
      ['__proto__']: fc.anything(),
      constructor: fc.anything(),
    },
    { requiredKeys: [] },
  )
  .map((value) => JSON.stringify(value, (_, member) => (typeof member === 'bigint' ? 0 : member)));

const nested = fc
  .integer({ min: 1, max: 30_000 })
  .map((depth) => '['.repeat(depth) + ']'.repeat(depth));

type Sent = { data: string | Uint8Array; isBinary: boolean };

const frame: fc.Arbitrary<Sent> = fc.oneof(
  { weight: 6, arbitrary: almost.map((data) => ({ data, isBinary: false })) },
  { weight: 2, arbitrary: oddText.map((data) => ({ data, isBinary: false })) },
  { weight: 1, arbitrary: nested.map((data) => ({ data, isBinary: false })) },
  {
    weight: 2,
    arbitrary: fc.uint8Array({ maxLength: 500 }).map((data) => ({ data, isBinary: true })),
  },
);

test('500 hostile frames are each answered, with an error that is theirs', async () => {
  let answered = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(frame, { minLength: FRAMES_PER_SOCKET, maxLength: FRAMES_PER_SOCKET }),
      fc.boolean(),
      async (frames, isSignedIn) => {
        const client = await SocketClient.open(url, isSignedIn ? { sid } : {});
        for (const [n, { data, isBinary }] of frames.entries()) {
          client.socket.send(data, { binary: isBinary });
          await until(() => client.frames.length > n || client.isClosed);
          const answer = client.frames[n];
          assert.ok(answer, `closed with ${client.isClosed && (await client.closed).code}`);
          assert.ok(answer.type !== 'error' || (answer.problem?.status ?? 500) < 500);
          answered += 1;
        }
        client.socket.close();
      },
    ),
    { numRuns: SOCKETS },
  );
  assert.ok(answered >= SOCKETS * FRAMES_PER_SOCKET);
  assert.ok(!lines.some((line) => line.includes('internal_error') || line.includes(sid)));
  assert.equal((await app.inject('/health/live')).statusCode, 200);
});

test('bytes that are no WebSocket frames close the one socket', async () => {
  const witness = await SocketClient.open(url);
  after(() => witness.socket.terminate());
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ minLength: 2, maxLength: 300 }), async (bytes) => {
      const client = await SocketClient.open(url);
      const raw: unknown = Reflect.get(client.socket, '_socket');
      assert.ok(raw !== null && typeof raw === 'object' && 'end' in raw);
      assert.ok(typeof raw.end === 'function');
      raw.end(Buffer.from(bytes));
      await client.closed;
      assert.equal(await witness.outcome({ type: 'ping' }), 'ok');
    }),
    { numRuns: 100 },
  );
});
