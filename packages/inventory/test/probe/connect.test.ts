import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { open, resolve } from '../../src/probe/connect.ts';
import { listen } from '../support/servers.ts';

test('an address has itself, with or without brackets; a name has what the system says', async () => {
  assert.deepEqual(await resolve('192.0.2.7'), [{ address: '192.0.2.7', family: 4 }]);
  assert.deepEqual(await resolve('[2001:db8::7]'), [{ address: '2001:db8::7', family: 6 }]);
  const addresses = (await resolve('localhost')).map(({ address }) => address);
  assert.ok(addresses.includes('127.0.0.1') || addresses.includes('::1'), addresses.join());
});

test('a connection leads to the addresses that were found, whatever the name means by now', async () => {
  const server = createServer();
  const connection = once(server, 'connection');
  const port = await listen(server);
  const { signal } = new AbortController();
  // Nobody has an address for this name (RFC 6761 §6.4), so to ask for it again would fail.
  const socket = await open([{ address: '127.0.0.1', family: 4 }], {
    host: 'moved.invalid',
    port,
    signal,
  });
  assert.equal(socket.remoteAddress, '127.0.0.1');
  socket.destroy();
  await connection;
});
