import assert from 'node:assert/strict';
import fc from 'fast-check';
import { person } from '../helpers/people.ts';
import { SocketClient } from '../helpers/socket-client.ts';
import { until } from '../helpers/until.ts';
import type { HostileAssistant } from './hostile-assistant.ts';
import { bodyFor, valueFor } from './json-bodies.ts';
import { id, MARK, marked } from './text.ts';

const TYPES = ['ping', 'session.create', 'session.open', 'message.send', 'message.cancel'];

/** What the server may close a socket with when it is sent nonsense. docs/protocol.md; RFC 6455 §7.4. */
const CLOSE_CODES = new Set([1002, 1003, 1007, 1009, 4401, 4403, 4429]);

const frame = {
  type: 'object',
  properties: {
    type: { enum: TYPES },
    id: { type: 'string' },
    session_id: { type: 'string' },
    profile_id: { type: 'string' },
    name: { type: 'string' },
    text: { type: 'string' },
  },
};

/** A frame, binary ones among them; one is too large, and the last in its socket. */
const anyFrame: fc.Arbitrary<string | Buffer> = fc.oneof(
  { weight: 5, arbitrary: valueFor(frame).map((one) => JSON.stringify(one) ?? '') },
  { weight: 2, arbitrary: bodyFor(frame).map((one) => one.toString()) },
  { weight: 1, arbitrary: bodyFor(frame) },
  { weight: 1, arbitrary: marked },
);

/** Frames and handshakes that no client of ours sends. */
export function socketCases(assistant: HostileAssistant): void {
  const { app, url, secrets, signedIn, cases, check } = assistant;
  let sid: string | undefined;

  async function userSession(): Promise<string> {
    if (sid === undefined) {
      const permissions = ['svc.profiles.use'] as const;
      ({ sid } = await signedIn(
        app,
        person('u-hostile-sockets', { permissions: [...permissions] }),
      ));
      secrets.add(sid);
    }
    return sid;
  }

  cases(
    'every frame is answered, or the socket is closed for it',
    350,
    fc.record({
      frames: fc.array(anyFrame, { minLength: 1, maxLength: 6 }),
      isAnonymous: fc.boolean(),
      isTooLarge: fc.boolean(),
    }),
    async ({ frames, isAnonymous, isTooLarge }) => {
      const client = await SocketClient.open(url, isAnonymous ? {} : { sid: await userSession() });
      for (const one of frames) client.socket.send(one, { binary: Buffer.isBuffer(one) });
      if (isTooLarge) client.socket.send(MARK.repeat(20_000));
      else await until(() => client.frames.length >= frames.length || client.isClosed);
      if (isTooLarge) await client.closed;
      for (const { type, problem } of client.frames) {
        assert.ok(['pong', 'session.created', 'error'].includes(type), type);
        if (problem !== undefined) assert.ok(problem.status < 500, JSON.stringify(problem));
      }
      secrets.checkAnswer(JSON.stringify(client.frames));
      if (!client.isClosed) client.socket.close();
      const { code } = await client.closed;
      assert.ok(code === 1005 || CLOSE_CODES.has(code), String(code));
    },
  );

  cases(
    'a handshake opens a socket or is refused as a problem',
    250,
    fc.record({
      cookie: fc.oneof(
        id,
        marked.map((one) => one.replaceAll(/[^\x20-\x7e]/gu, '-')),
      ),
      origin: fc.constantFrom('http://assistant.test', 'https://evil.example', 'null', '//evil'),
      headers: fc.dictionary(
        fc.constantFrom('sec-fetch-site', 'x-forwarded-for', 'sec-websocket-protocol', 'upgrade'),
        fc.constantFrom('websocket', 'h2c', 'same-origin', 'cross-site', '127.0.0.1', 'a, b'),
      ),
    }),
    async ({ cookie, origin, headers }) => {
      const client = SocketClient.begin(url, {
        origin,
        headers: { ...headers, cookie: `svc_auth_session=${cookie}` },
      });
      const { promise: refused, resolve } = Promise.withResolvers<'refused'>();
      client.socket.once('unexpected-response', (_request, response) => {
        let body = '';
        response.on('data', (chunk) => {
          body += String(chunk);
        });
        response.on('end', () => {
          check(
            { url: '/ws' },
            { statusCode: response.statusCode ?? 0, headers: response.headers, body },
          );
          resolve('refused');
        });
      });
      const end = await Promise.race([refused, client.closed]);
      // A cookie that is nobody's: sign in before you connect again.
      if (end !== 'refused') assert.ok([1006, 4401].includes(end.code), String(end.code));
      client.socket.terminate();
    },
  );
}
