import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, test } from 'node:test';
import { createLogger, createServer, listen } from '../src/index.ts';

const lines: string[] = [];
const app = await createServer({
  log: createLogger({
    level: 'info',
    service: 'test',
    destination: { write: (line) => void lines.push(line) },
  }),
  bodyLimit: 100,
  openapi: { title: 'Test', description: 'A test.', version: '1' },
});
const url = await listen(app, { host: '127.0.0.1', port: 0, variable: 'PORT' });
after(() => app.close());

async function say(text: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk: Buffer) => (answer += chunk.toString()));
  socket.write(text);
  await once(socket, 'close');
  return answer;
}

for (const [name, text, status, code = 'malformed_request'] of [
  ['no HTTP', 'hello\r\n\r\n', 400],
  ['a header without a name', 'GET / HTTP/1.1\r\nhost: x\r\n: v\r\n\r\n', 400],
  [
    'two lengths',
    'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n',
    400,
  ],
  ['two hosts', 'GET / HTTP/1.1\r\nhost: x\r\nHost: x\r\nconnection: close\r\n\r\n', 400],
  [
    'headers without end',
    `GET / HTTP/1.1\r\nhost: x\r\na: ${'x'.repeat(20_000)}\r\n\r\n`,
    431,
    'headers_too_large',
  ],
] as const) {
  test(`${name} is ${status}, as a problem`, async () => {
    const answer = await say(text);
    assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `));
    assert.match(answer, /content-type: application\/problem\+json/);
    const body = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')));
    assert.equal(body.status, status);
    assert.equal(body.code, code);
    const id = /^x-request-id: (.+)\r$/m.exec(answer)?.[1];
    assert.equal(body.request_id, id);
    const logged = lines.map((line) => JSON.parse(line)).find((line) => line.request_id === id);
    assert.equal(logged?.status, status);
    assert.ok(!JSON.stringify(logged).includes('hello'));
  });
}
