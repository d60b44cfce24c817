import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertLoopback, LoopbackServer } from '../src/loopback.ts';

test('loopback hosts are accepted', () => {
  for (const host of ['localhost', '127.0.0.1', '127.8.4.2', '::1', '[::1]']) {
    assert.doesNotThrow(() => assertLoopback(host), host);
  }
});

test('every other host is refused', () => {
  const hosts = [
    '0.0.0.0',
    '::',
    '[::]',
    '192.0.2.1',
    '128.0.0.1',
    '',
    '127.0.0.1.example',
    '2001:db8::1',
  ];
  for (const host of hosts) {
    assert.throws(() => assertLoopback(host), RangeError, host);
  }
});

test('a server refuses to listen without a loopback host', () => {
  const server = new LoopbackServer();
  for (const options of [
    undefined,
    8002,
    { port: 0 },
    { port: 0, host: '::' },
    { path: 'socket' },
  ]) {
    assert.throws(() => server.listen(options), RangeError);
  }
  assert.equal(server.listening, false);
});
