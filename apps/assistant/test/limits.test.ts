import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { suite, test } from 'node:test';
import { openSocket, until } from '@oselya/testing';
import fc from 'fast-check';
import { createMinuteBudget, createMinuteBudgets, limitTransfers } from '../src/limits.ts';
import { createTestServer } from './helpers/servers.ts';
import { cutText, shortenText, toStorableJson } from '../src/text.ts';

suite('limits', () => {
  const HEAD =
    'PUT / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n';

  /** Starts a server that permits two concurrent transfers. */
  async function startServer() {
    const app = await createTestServer();
    const requestCounts = { waiting: 0, closed: 0 };
    app.addHook('onRequest', async (request, reply) => {
      // Simulates a guard that waits for the provider until the client disconnects.
      if (request.headers['x-wait'] !== undefined) {
        requestCounts.waiting += 1;
        await once(reply.raw, 'close');
        requestCounts.closed += 1;
      }
    });
    const schema = { hide: true, body: {} };
    app.put('/', { onRequest: limitTransfers(2, 'files'), schema }, () => ({ ok: true }));
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    return {
      requestCounts,
      send: () =>
        fetch(url, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: '{}' }),
      /** Writes the beginning of a request. */
      begin: async (text: string): Promise<Socket> => {
        const socket = await openSocket(url);
        socket.write(HEAD + text);
        return socket;
      },
    };
  }

  test('A client that disconnects before its request is counted occupies no transfer', async () => {
    const { requestCounts, send, begin } = await startServer();
    const sockets = [await begin('X-Wait: 1\r\n\r\n{}'), await begin('X-Wait: 1\r\n\r\n{')];
    await until(() => requestCounts.waiting === sockets.length);
    for (const socket of sockets) socket.destroy();
    await until(() => requestCounts.closed === sockets.length);
    assert.equal((await send()).status, 200);
  });

  test('A budget lasts for a minute from its first use, for each key', (t) => {
    let now = 1_000_000;
    t.mock.method(performance, 'now', () => now);
    const spend = createMinuteBudget(2);
    const budgets = createMinuteBudgets(10);
    assert.deepEqual([spend(), spend(), spend()], [true, true, false]);
    assert.equal(budgets.wait('a'), 0);
    budgets.spend('a', 9);
    assert.equal(budgets.wait('a'), 0);
    budgets.spend('a', 9);
    now += 1500;
    assert.deepEqual([budgets.wait('a'), budgets.wait('b')], [59, 0]);
    now += 58_499;
    assert.deepEqual([budgets.wait('a'), spend()], [1, false]);
    now += 1;
    assert.equal(budgets.wait('a'), 0);
    assert.deepEqual([spend(), spend(), spend()], [true, true, false]);
  });
});

suite('texts', () => {
  test('Text is truncated without splitting a surrogate pair', () => {
    assert.equal(cutText('дім🏠', 5), 'дім🏠');
    assert.equal(cutText('дім🏠', 4), 'дім');
    assert.equal(shortenText('дім 🏠', 5), 'дім…');
    assert.equal(shortenText('дім 🏠', 6), 'дім 🏠');
    const texts = fc.string({ unit: fc.constantFrom('a', 'ж', '🏠', '\uD83C', '\uDFE0') });
    fc.assert(
      fc.property(texts, fc.nat(12), (original, length) => {
        const truncated = cutText(original, length);
        assert.ok(original.startsWith(truncated));
        assert.ok(
          truncated.length <= length && truncated.length >= Math.min(original.length, length) - 1,
        );
        if (original.isWellFormed()) assert.ok(truncated.isWellFormed());
      }),
    );
  });

  test('JSON for the database loses only NUL characters and lone surrogates', () => {
    const roundTrip = (value: unknown): unknown => JSON.parse(toStorableJson(value));
    assert.deepEqual(roundTrip({ 'a\0b': ['c\0', { d: '\ud83d', e: { 'f\0': null } }], j: 1 }), {
      ab: ['c', { d: '\ufffd', e: { f: null } }],
      j: 1,
    });
    const texts = ['дім\n\t\u0001\u007f', '\ud83c\udfe0', String.raw`\u0000 and \ud83d`, '\\'];
    assert.deepEqual(roundTrip({ texts, empty: {}, is: true }), { texts, empty: {}, is: true });
  });
});
