import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { attempt } from '../../src/webhooks/attempt.ts';
import { freeIssuer } from '../helpers/start.ts';
import { type Answer, startReceiver } from '../helpers/receiver.ts';

const message = { headers: { 'webhook-id': 'msg_1' }, body: '{"a":"ї"}', timeoutMs: 5000 };
const { signal } = new AbortController();

async function answeredWith(t: TestContext, answer: Answer, timeoutMs = 5000) {
  const { url } = await startReceiver(t, [answer]);
  return attempt({ ...message, url, timeoutMs, signal });
}

describe('an attempt', () => {
  test('posts the body and headers as they are', async (t) => {
    const { url, messages } = await startReceiver(t);
    await attempt({ ...message, url, signal });
    const [received] = messages;
    assert.equal(received?.path, '/webhooks/idp');
    assert.equal(received.body, message.body);
    assert.equal(received.headers['webhook-id'], 'msg_1');
    assert.equal(received.headers['content-type'], 'application/json');
  });

  for (const [status, outcome] of [
    [200, 'delivered'],
    [204, 'delivered'],
    [302, 'failed'],
    [400, 'failed'],
    [404, 'failed'],
    [408, 'retry'],
    [429, 'retry'],
    [500, 'retry'],
    [503, 'retry'],
  ] as const) {
    test(`that is answered ${status} is ${outcome}`, async (t) => {
      assert.deepEqual(await answeredWith(t, status), { outcome, detail: `answered ${status}` });
    });
  }

  test('follows no redirect', async (t) => {
    const { url, messages } = await startReceiver(t, [302]);
    await attempt({ ...message, url, signal });
    assert.deepEqual(
      messages.map(({ path }) => path),
      ['/webhooks/idp'],
    );
  });

  test('does not wait longer than it may', async (t) => {
    assert.deepEqual(await answeredWith(t, 'never', 20), {
      outcome: 'retry',
      detail: 'no answer within 0.02 s',
    });
  });

  test('says why nobody could be reached', async () => {
    const url = `${await freeIssuer()}/webhooks/idp`;
    assert.deepEqual(await attempt({ ...message, url, signal }), {
      outcome: 'retry',
      detail: 'cannot be reached (ECONNREFUSED)',
    });
  });

  test('ends when it is told to', async (t) => {
    const stopping = new AbortController();
    const { url, arrived } = await startReceiver(t, ['never']);
    const result = attempt({ ...message, url, signal: stopping.signal });
    await arrived(1);
    stopping.abort();
    assert.equal((await result).outcome, 'retry');
  });
});
