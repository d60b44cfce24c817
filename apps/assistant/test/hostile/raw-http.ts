import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import fc from 'fast-check';
import type { HostileAssistant } from './hostile-assistant.ts';
import { inAddress, MARK, marked, text } from './text.ts';

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
