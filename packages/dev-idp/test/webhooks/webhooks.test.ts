import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createWebhooks, type WebhookTiming } from '../../src/webhooks/webhooks.ts';
import { assertSigned, eventOf, type Message, startReceiver } from '../helpers/receiver.ts';
import { freeIssuer } from '../helpers/start.ts';

const secret = 'таємниця для двох';
const quick: WebhookTiming = { attemptTimeoutMs: 5000, retryDelaysMs: [1, 1, 1] };

/** A clock that is a minute later each time it is asked. */
function clock(): () => number {
  let now = Date.UTC(2026, 2, 1);
  return () => (now += 60_000);
}

const header = (name: string) => (message: Message) => message.headers[name];

describe('an event', () => {
  test('is delivered as a signed message that says what happened, to whom and when', async (t) => {
    const { url, messages } = await startReceiver(t);
    const webhooks = createWebhooks({ url, secret }, quick, () => Date.UTC(2026, 2, 1));
    const delivery = webhooks.send('user.blocked', 'u-1');
    assert.equal(delivery.state, 'waiting');
    await webhooks.settled();

    const [message] = messages;
    assert.ok(message);
    assertSigned(message, secret);
    assert.equal(message.headers['webhook-timestamp'], String(Date.UTC(2026, 2, 1) / 1000));
    assert.deepEqual(JSON.parse(message.body), {
      event: 'user.blocked',
      user_id: 'u-1',
      occurred_at: '2026-03-01T00:00:00.000Z',
    });
    assert.deepEqual(delivery, {
      id: message.headers['webhook-id'],
      event: 'user.blocked',
      user_id: 'u-1',
      occurred_at: '2026-03-01T00:00:00.000Z',
      state: 'delivered',
      attempts: 1,
      detail: 'answered 200',
    });
  });

  test('about everybody names nobody', async (t) => {
    const { url, messages } = await startReceiver(t);
    const webhooks = createWebhooks({ url, secret: 'whsec_c2VjcmV0' }, quick);
    webhooks.send('auth.global_logout');
    await webhooks.settled();
    const [message] = messages;
    assert.ok(message);
    assertSigned(message, Buffer.from('secret'));
    assert.deepEqual(Object.keys(JSON.parse(message.body)), ['event', 'occurred_at']);
  });

  test('is tried again under the same id, with a timestamp and signature of its own', async (t) => {
    const { url, messages } = await startReceiver(t, [500, 503]);
    const webhooks = createWebhooks({ url, secret }, quick, clock());
    const delivery = webhooks.send('session.revoked', 'u-1');
    await webhooks.settled();
    assert.deepEqual([delivery.state, delivery.attempts], ['delivered', 3]);

    for (const message of messages) assertSigned(message, secret);
    assert.deepEqual(new Set(messages.map(header('webhook-id'))), new Set([delivery.id]));
    assert.equal(new Set(messages.map(header('webhook-timestamp'))).size, 3);
    assert.equal(new Set(messages.map(header('webhook-signature'))).size, 3);
    assert.equal(new Set(messages.map(({ body }) => body)).size, 1);
  });

  test('is given up after the last attempt', async (t) => {
    const { url, messages } = await startReceiver(t, [500, 500, 500, 502, 200]);
    const webhooks = createWebhooks({ url, secret }, quick);
    const delivery = webhooks.send('user.blocked', 'u-1');
    await webhooks.settled();
    assert.equal(messages.length, 4);
    assert.deepEqual(
      [delivery.state, delivery.attempts, delivery.detail],
      ['failed', 4, 'answered 502'],
    );
  });

  test('is not sent again to a receiver that refuses it', async (t) => {
    const { url, messages } = await startReceiver(t, [400]);
    const webhooks = createWebhooks({ url, secret }, quick);
    const delivery = webhooks.send('user.blocked', 'u-1');
    await webhooks.settled();
    assert.equal(messages.length, 1);
    assert.deepEqual([delivery.state, delivery.detail], ['failed', 'answered 400']);
  });

  test('does not wait for ever for a receiver that hangs', async (t) => {
    const { url } = await startReceiver(t, ['never', 'never']);
    const webhooks = createWebhooks({ url, secret }, { attemptTimeoutMs: 20, retryDelaysMs: [1] });
    const delivery = webhooks.send('user.blocked', 'u-1');
    await webhooks.settled();
    assert.deepEqual(
      [delivery.state, delivery.attempts, delivery.detail],
      ['failed', 2, 'no answer within 0.02 s'],
    );
  });

  test('is given up when nobody listens', async () => {
    const webhooks = createWebhooks({ url: await freeIssuer(), secret }, quick);
    const delivery = webhooks.send('user.blocked', 'u-1');
    await webhooks.settled();
    assert.deepEqual(
      [delivery.state, delivery.attempts, delivery.detail],
      ['failed', 4, 'cannot be reached (ECONNREFUSED)'],
    );
  });

  test('without a receiver is kept as one that nobody was told of', async () => {
    const webhooks = createWebhooks();
    assert.equal(webhooks.url, undefined);
    const delivery = webhooks.send('user.blocked', 'u-1');
    assert.deepEqual(
      [delivery.state, delivery.attempts, delivery.detail],
      ['failed', 0, 'no webhook is set up'],
    );
  });
});

describe('events', () => {
  test('arrive in the order in which they happened, also past a failing one', async (t) => {
    const { url, messages } = await startReceiver(t, [500, 500, 400]);
    const webhooks = createWebhooks({ url, secret }, quick);
    webhooks.send('user.blocked', 'u-1');
    webhooks.send('user.unblocked', 'u-1');
    webhooks.send('auth.global_logout');
    webhooks.send('user.blocked', 'u-1');
    await webhooks.settled();
    assert.deepEqual(messages.map(eventOf), [
      ['user.blocked', 'u-1'],
      ['user.blocked', 'u-1'],
      ['user.blocked', 'u-1'],
      ['user.unblocked', 'u-1'],
      ['auth.global_logout', undefined],
      ['user.blocked', 'u-1'],
    ]);
    assert.equal(new Set(messages.map(header('webhook-id'))).size, 4);
  });

  test('are remembered, the latest first, as many as a page can show', async (t) => {
    const { url } = await startReceiver(t);
    const webhooks = createWebhooks({ url, secret }, quick);
    for (let index = 1; index <= 25; index += 1) webhooks.send('user.blocked', `u-${index}`);
    await webhooks.settled();
    const recent = webhooks.recent();
    assert.deepEqual(
      recent.map(({ user_id }) => user_id),
      Array.from({ length: 20 }, (_, index) => `u-${25 - index}`),
    );
    assert.ok(recent.every(({ state }) => state === 'delivered'));
  });

  test('are refused when far too many wait', async (t) => {
    const { url, arrived } = await startReceiver(t, ['never']);
    const webhooks = createWebhooks({ url, secret }, quick);
    t.after(webhooks.close);
    const deliveries = Array.from({ length: 1001 }, () => webhooks.send('user.blocked', 'u-1'));
    await arrived(1);
    assert.equal(deliveries[999]?.state, 'waiting');
    assert.equal(deliveries[1000]?.state, 'failed');
    assert.equal(deliveries[1000].detail, '1000 others are waiting already');
  });

  test('that wait make room as they are settled', async (t) => {
    const { url } = await startReceiver(
      t,
      Array.from({ length: 1000 }, () => 400),
    );
    const webhooks = createWebhooks({ url, secret }, quick);
    for (let index = 0; index < 1000; index += 1) webhooks.send('user.blocked', 'u-1');
    await webhooks.settled();
    const later = webhooks.send('user.unblocked', 'u-1');
    await webhooks.settled();
    assert.equal(later.state, 'delivered');
  });
});

describe('closing', () => {
  test('ends an attempt, a wait for the next one, and whatever comes after', async (t) => {
    const slow: WebhookTiming = { attemptTimeoutMs: 600_000, retryDelaysMs: [600_000] };
    for (const answer of ['never', 500] as const) {
      const { url, messages, arrived } = await startReceiver(t, [answer]);
      const webhooks = createWebhooks({ url, secret }, slow);
      const [first, second] = [
        webhooks.send('user.blocked', 'u-1'),
        webhooks.send('user.unblocked', 'u-1'),
      ];
      await arrived(1);
      await webhooks.close();
      assert.equal(messages.length, 1);
      for (const delivery of [first, second, webhooks.send('user.blocked', 'u-1')]) {
        await webhooks.settled();
        assert.deepEqual([delivery.state, delivery.detail], ['failed', 'the provider was stopped']);
      }
    }
  });
});

test('an address or a secret that cannot be used is refused at once', () => {
  for (const url of ['here', 'ftp://127.0.0.1/', '']) {
    assert.throws(() => createWebhooks({ url, secret }), /^TypeError: webhook\.url/);
  }
  const url = 'http://127.0.0.1:8000/webhooks/idp';
  assert.throws(() => createWebhooks({ url, secret: '' }), /^TypeError: webhook\.secret/);
});
