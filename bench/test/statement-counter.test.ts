import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { startStatementCounter, createFrontendReader } from '../src/statement-counter.ts';

/** A message as PostgreSQL's protocol has it; the first of a connection has no type. */
function message(type: string, content: string): Buffer {
  const body = Buffer.from(content);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(body.length + 4);
  return Buffer.concat([Buffer.from(type), length, body]);
}

const startup = message('', '\0\x03\0\0user\0oselya\0\0');

function count(pieces: readonly Buffer[]): number {
  let statements = 0;
  const read = createFrontendReader(() => (statements += 1));
  for (const piece of pieces) read(piece);
  return statements;
}

test('a simple query is a statement, and so is each execution of a parsed one', () => {
  const parsed = [
    message('P', 'name\0select $1\0\0\0'),
    message('B', '\0name\0\0\0\0\0\0\0'),
    message('D', 'P\0'),
    message('E', '\0\0\0\0\0'),
    message('S', ''),
  ];
  assert.equal(count([startup]), 0);
  assert.equal(count([startup, message('Q', 'begin\0'), message('Q', 'select 1\0')]), 2);
  assert.equal(count([startup, ...parsed]), 1);
  assert.equal(count([startup, ...parsed, ...parsed.slice(1), message('X', '')]), 2);
});

test('letters within messages are not types of messages', () => {
  assert.equal(count([startup, message('p', 'QQQQEEEE'), message('Q', 'Q\0E\0Q\0')]), 1);
});

test('the count does not depend on how the bytes are cut', () => {
  const messages = fc.array(
    fc.record({ type: fc.constantFrom('Q', 'E', 'P', 'B', 'S', 'p'), content: fc.string() }),
  );
  fc.assert(
    fc.property(messages, fc.array(fc.nat(40), { minLength: 1 }), (all, steps) => {
      const bytes = Buffer.concat([
        startup,
        ...all.map(({ type, content }) => message(type, content)),
      ]);
      const pieces: Buffer[] = [];
      for (let at = 0, nth = 0; at < bytes.length; nth += 1) {
        const step = 1 + (steps[nth % steps.length] ?? 0);
        pieces.push(bytes.subarray(at, at + step));
        at += step;
      }
      const expected = all.filter(({ type }) => type === 'Q' || type === 'E').length;
      assert.equal(count(pieces), expected);
    }),
  );
});

test('the way to the database counts, and changes nothing of what goes through', async () => {
  const database = createServer((socket) => socket.pipe(socket));
  database.listen(0, '127.0.0.1');
  await once(database, 'listening');
  after(() => database.close());
  const { port } = database.address() as AddressInfo;
  const counter = await startStatementCounter(`postgres://oselya:secret@127.0.0.1:${port}/name`);
  const url = new URL(counter.url);
  assert.equal(url.pathname, '/name');
  assert.notEqual(url.port, String(port));

  const sent = Buffer.concat([startup, message('Q', 'select 1\0')]);
  const client = connect({ host: url.hostname, port: Number(url.port) });
  client.write(sent);
  let echo = Buffer.alloc(0);
  for await (const chunk of client) {
    echo = Buffer.concat([echo, chunk as Buffer]);
    if (echo.length >= sent.length) break;
  }
  assert.deepEqual(echo, sent);
  assert.equal(counter.count(), 1);
  await counter[Symbol.asyncDispose]();
});
