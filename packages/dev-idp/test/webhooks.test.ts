import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { unusedUrl, until } from '@oselya/testing';
import { createWebhooks, signedHeaders, webhookKey } from '../src/webhooks.ts';
import { assertSigned, SECRET, startReceiver } from './support.ts';

const QUICK = { retryDelaysMs: [1, 1, 1], timeoutMs: 5000 };

suite('an event', () => {
  test('is a signed message with the event, the user and the time', async () => {
    const { webhook, requests } = await startReceiver();
    const webhooks = createWebhooks(webhook, QUICK);
    const delivery = webhooks.send('user.blocked', 'u-1');
    assert.equal(delivery.state, 'waiting');
    webhooks.send('auth.global_logout');
    await webhooks.settled();
    const [message, other] = requests;
    assert.ok(message && other);
    assertSigned(message, SECRET);
    const { id, occurred_at } = delivery;
    assert.equal(message.headers['webhook-id'], id);
    assert.deepEqual(message.body, { event: 'user.blocked', user_id: 'u-1', occurred_at });
    assert.deepEqual(Object.keys(Object(other.body)), ['event', 'occurred_at']);
    const { state, attempts, detail } = delivery;
    assert.deepEqual([state, attempts, detail], ['delivered', 1, 'answered 200']);
  });

  const scripts: [
    script: (number | 'silence')[],
    attempts: number,
    state: string,
    detail: string,
  ][] = [
    [[204], 1, 'delivered', 'answered 204'],
    [[500, 503], 3, 'delivered', 'answered 200'],
    [[408, 429, 425], 4, 'delivered', 'answered 200'],
    [[500, 500, 500, 502], 4, 'failed', 'answered 502'],
    [[400], 1, 'failed', 'answered 400'],
    [[404], 1, 'failed', 'answered 404'],
    [[302], 1, 'failed', 'answered 302'],
    [['silence', 'silence', 'silence', 'silence'], 4, 'failed', 'no answer in time'],
  ];
  for (const [script, attempts, state, detail] of scripts) {
    test(`that meets ${script.join(', ')} is ${state} after ${attempts} attempts`, async () => {
      const { webhook, requests } = await startReceiver(script);
      const timeoutMs = script[0] === 'silence' ? 20 : 5000;
      const webhooks = createWebhooks(webhook, { ...QUICK, timeoutMs });
      const delivery = webhooks.send('session.revoked', 'u-1');
      await webhooks.settled();
      assert.deepEqual(
        [delivery.attempts, delivery.state, delivery.detail],
        [attempts, state, detail],
      );
      // A request that the sender aborts at once may not arrive.
      if (script[0] !== 'silence') assert.equal(requests.length, attempts);
      const ids = new Set(requests.map(({ headers }) => headers['webhook-id']));
      assert.deepEqual([...ids], [delivery.id]);
      for (const message of requests) {
        assert.equal(message.path, '/webhooks/idp', 'redirects are not followed');
        assertSigned(message, SECRET);
      }
    });
  }

  test('fails without a listener, and without a receiver', async () => {
    const webhooks = createWebhooks({ url: await unusedUrl(), secret: SECRET }, QUICK);
    const delivery = webhooks.send('user.blocked', 'u-1');
    await webhooks.settled();
    assert.deepEqual(
      [delivery.state, delivery.attempts, delivery.detail],
      ['failed', 4, 'cannot be reached (ECONNREFUSED)'],
    );
    const none = createWebhooks().send('user.blocked', 'u-1');
    assert.deepEqual([none.state, none.detail], ['failed', 'no webhook is set up']);
  });
});

suite('events', () => {
  test('arrive in their order, also past a failing one', async () => {
    const { webhook, events } = await startReceiver([500, 500, 400]);
    const webhooks = createWebhooks(webhook, QUICK);
    webhooks.send('user.blocked', 'u-1');
    webhooks.send('user.unblocked', 'u-1');
    webhooks.send('auth.global_logout');
    await webhooks.settled();
    assert.deepEqual(
      events().map(([event]) => event),
      ['user.blocked', 'user.blocked', 'user.blocked', 'user.unblocked', 'auth.global_logout'],
    );
  });

  test('are kept, the latest first, as many as a page can show', async () => {
    const webhooks = createWebhooks();
    for (let nth = 1; nth <= 25; nth += 1) webhooks.send('user.blocked', `u-${nth}`);
    assert.deepEqual(
      webhooks.recent().map(({ user_id }) => user_id),
      Array.from({ length: 20 }, (_, nth) => `u-${25 - nth}`),
    );
  });

  test('fail when the provider stops: in an attempt, between attempts, and later', async () => {
    const slow = { timeoutMs: 600_000, retryDelaysMs: [600_000] };
    for (const step of ['silence', 500] as const) {
      const { webhook, requests } = await startReceiver([step]);
      const webhooks = createWebhooks(webhook, slow);
      const waiting = [
        webhooks.send('user.blocked', 'u-1'),
        webhooks.send('user.unblocked', 'u-1'),
      ];
      await until('the first attempt', () => requests.length === 1);
      await webhooks.close();
      for (const delivery of [...waiting, webhooks.send('user.blocked', 'u-1')]) {
        await webhooks.settled();
        assert.deepEqual([delivery.state, delivery.detail], ['failed', 'the provider was stopped']);
      }
      assert.equal(requests.length, 1);
    }
  });
});

suite('a signature', () => {
  test('is the one of the reference vector of Standard Webhooks', () => {
    const key = webhookKey('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
    const content = {
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      timestamp: 1_614_265_330,
      body: '{"test": 2432232314}',
    };
    const { 'webhook-signature': signature } = signedHeaders(key, content);
    assert.equal(signature, 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
  });

  test('has the bytes of the secret as its key, or base64 after whsec_', () => {
    for (const secret of ['plain', 'таємниця', 'Whsec_YQ==', 'a whsec_YQ==']) {
      assert.deepEqual(webhookKey(secret), Buffer.from(secret));
    }
    for (const encoded of ['c2VjcmV0', 'c2VjcmU', 'c2VjcmU=', 'c2Vjcg==', '+/+/', '-_-_']) {
      assert.deepEqual(webhookKey(`whsec_${encoded}`), Buffer.from(encoded, 'base64'));
    }
    for (const encoded of ['', 'Z', 'c2VjcmV0=', 'c2Vj cmV0', 'c2Vj.mV0', '====']) {
      assert.throws(() => webhookKey(`whsec_${encoded}`), /^TypeError: webhook.secret: .*base64$/);
    }
  });
});
