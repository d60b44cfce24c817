import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { isDatabaseOutage } from '../src/index.ts';
import { kyselyPool } from '../src/kysely-pool.ts';
import { openPostgres } from '../src/postgres.ts';

/** A message of the server: its letter, its length, and what it says. PostgreSQL, Message Formats. */
function message(letter: string, ...parts: (string | number)[]): Buffer {
  const body = Buffer.concat(
    parts.map((part) => {
      if (typeof part === 'string') return Buffer.from(part);
      const number = Buffer.alloc(4);
      number.writeInt32BE(part);
      return number;
    }),
  );
  const head = Buffer.alloc(5);
  head.write(letter);
  head.writeInt32BE(4 + body.length, 1);
  return Buffer.concat([head, body]);
}

/** Lets everybody in and at once out again, all of it in one packet. */
const FAREWELL = Buffer.concat([
  message('R', 0),
  message('Z', 'I'),
  message('E', 'SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0'),
]);

test('a server that hangs up on a connection as soon as it is open ends no process', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(FAREWELL));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const database = openPostgres({
    url: `postgres://nobody@127.0.0.1:${port}/nothing`,
    maxConnections: 1,
    onError: () => undefined,
  });
  const db = new Kysely<unknown>({
    dialect: new PostgresDialect({ pool: kyselyPool(database.pool) }),
  });
  try {
    for (let time = 0; time < 2; time += 1) {
      await assert.rejects(sql`select 1`.execute(db), isDatabaseOutage);
    }
  } finally {
    await database.close();
    server.close();
  }
});
