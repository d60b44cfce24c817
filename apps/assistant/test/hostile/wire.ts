import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import fc from 'fast-check';
import { person } from '../helpers/people.ts';
import { SocketClient } from '../helpers/socket-client.ts';
import { until } from '../helpers/until.ts';
import type { HostileAssistant } from './hostile-assistant.ts';
import { bodyFor, valueFor, id, MARK, marked, inAddress, text } from './generators.ts';

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

const line = fc.oneof(
  text,
  fc.constantFrom(
    'host: assistant.test',
    'content-length: 5',
    'content-length: -1',
    'content-length: 99999999999999999999',
    'transfer-encoding: chunked',
    'transfer-encoding: chunked, identity',
    'expect: 100-continue',
    'connection: upgrade',
    'upgrade: h2c',
    'upgrade: websocket',
    'cookie: svc_auth_session=' + MARK,
    'cookie',
    ': no name',
    'x'.repeat(20_000),
  ),
);

/** Bytes that are a request, hardly a request, or none. */
const bytes = fc
  .record({
    method: fc.constantFrom('GET', 'POST', 'PUT', 'CONNECT', 'get', 'G\u0000T', ''),
    target: fc.oneof(
      inAddress(marked).map((one) => `/${one}`),
      inAddress(marked).map((one) => `/auth/callback?code=${one}`),
      fc.constantFrom('*', '/', '//', 'http://evil.example/', 'evil.example:443', '/%', '/auth/me'),
      text,
    ),
    version: fc.constantFrom('HTTP/1.1', 'HTTP/1.0', 'HTTP/9.9', ''),
    lines: fc.array(line, { maxLength: 5 }),
    newline: fc.constantFrom('\r\n', '\r\n', '\n', '\r'),
    body: fc.oneof(marked, fc.constantFrom('', 'hello', '5\r\nhello\r\n0\r\n\r\n', 'zz\r\n')),
  })
  .map(({ method, target, version, lines, newline, body }) => {
    const head = [
      `${method} ${target} ${version}`,
      'host: a',
      ...lines,
      'connection: close',
      '',
      '',
    ];
    return Buffer.from(head.join(newline) + body);
  });

/** Bytes on the wire, where `inject` would not let them through. */
export function rawHttpCases({ url, secrets, cases }: HostileAssistant): void {
  cases('whatever bytes come, the answer is HTTP or an end', 400, bytes, async (sent) => {
    const { port, hostname } = new URL(url);
    const socket = connect(Number(port), hostname);
    let answer = '';
    socket.setEncoding('latin1').on('data', (chunk) => {
      answer += String(chunk);
    });
    socket.on('error', () => undefined);
    // Nothing more comes: who waits for the rest of it learns that here.
    socket.end(sent);
    await once(socket, 'close');
    if (answer === '') return;
    const status = /^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1];
    assert.ok(status !== undefined && Number(status) < 500, answer.slice(0, 500));
    secrets.checkAnswer(answer);
  });
}
