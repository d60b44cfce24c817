import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { startStatementCounter, createFrontendReader } from '../src/statement-counter.ts';

/** Creates a message of PostgreSQL's protocol; the first message of a connection has no type. */
function createMessage(type: string, content: string): Buffer {
  const body = Buffer.from(content);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(body.length + 4);
  return Buffer.concat([Buffer.from(type), length, body]);
}

const startup = createMessage('', '\0\x03\0\0user\0oselya\0\0');

function countStatements(pieces: readonly Buffer[]): number {
  let statements = 0;
  const read = createFrontendReader(() => (statements += 1));
  for (const piece of pieces) read(piece);
  return statements;
}

test('a simple query is a statement, and so is each execution of a parsed one', () => {
  const parsedStatements = [
    createMessage('P', 'name\0select $1\0\0\0'),
    createMessage('B', '\0name\0\0\0\0\0\0\0'),
    createMessage('D', 'P\0'),
    createMessage('E', '\0\0\0\0\0'),
    createMessage('S', ''),
  ];
  assert.equal(countStatements([startup]), 0);
  assert.equal(
    countStatements([startup, createMessage('Q', 'begin\0'), createMessage('Q', 'select 1\0')]),
    2,
  );
  assert.equal(countStatements([startup, ...parsedStatements]), 1);
  assert.equal(
    countStatements([
      startup,
      ...parsedStatements,
      ...parsedStatements.slice(1),
      createMessage('X', ''),
    ]),
    2,
  );
});

test('letters within messages are not message types', () => {
  assert.equal(
    countStatements([startup, createMessage('p', 'QQQQEEEE'), createMessage('Q', 'Q\0E\0Q\0')]),
    1,
  );
});

test('the count does not depend on the size of the chunks', () => {
  const messages = fc.array(
    fc.record({ type: fc.constantFrom('Q', 'E', 'P', 'B', 'S', 'p'), content: fc.string() }),
  );
  fc.assert(
    fc.property(messages, fc.array(fc.nat(40), { minLength: 1 }), (all, steps) => {
      const bytes = Buffer.concat([
        startup,
        ...all.map(({ type, content }) => createMessage(type, content)),
      ]);
      const pieces: Buffer[] = [];
      for (let offset = 0, index = 0; offset < bytes.length; index += 1) {
        const step = 1 + (steps[index % steps.length] ?? 0);
        pieces.push(bytes.subarray(offset, offset + step));
        offset += step;
      }
      const expected = all.filter(({ type }) => type === 'Q' || type === 'E').length;
      assert.equal(countStatements(pieces), expected);
    }),
  );
});

test('the proxy counts statements and forwards all bytes unchanged', async () => {
  const database = createServer((socket) => socket.pipe(socket));
  database.listen(0, '127.0.0.1');
  await once(database, 'listening');
  after(() => database.close());
  const { port } = database.address() as AddressInfo;
  const counter = await startStatementCounter(`postgres://oselya:secret@127.0.0.1:${port}/name`);
  const url = new URL(counter.url);
  assert.equal(url.pathname, '/name');
  assert.notEqual(url.port, String(port));

  const request = Buffer.concat([startup, createMessage('Q', 'select 1\0')]);
  const client = connect({ host: url.hostname, port: Number(url.port) });
  client.write(request);
  let echo = Buffer.alloc(0);
  for await (const chunk of client) {
    echo = Buffer.concat([echo, chunk as Buffer]);
    if (echo.length >= request.length) break;
  }
  assert.deepEqual(echo, request);
  assert.equal(counter.count(), 1);
  await counter[Symbol.asyncDispose]();
});
