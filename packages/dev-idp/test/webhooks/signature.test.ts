import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { signedHeaders, webhookKey } from '../../src/webhooks/signature.ts';

describe('a signature', () => {
  test('is the one of the reference vector of Standard Webhooks', () => {
    const key = webhookKey('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
    const content = {
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      timestamp: 1_614_265_330,
      body: '{"test": 2432232314}',
    };
    assert.deepEqual(signedHeaders(key, content), {
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    });
  });
});

describe('a secret', () => {
  test('is its own bytes in UTF-8', () => {
    for (const secret of ['plain', 'таємниця', 'Whsec_YQ==', 'a whsec_YQ==']) {
      assert.deepEqual(webhookKey(secret), Buffer.from(new TextEncoder().encode(secret)));
    }
  });

  test('behind whsec_ is base64, padded or not', () => {
    for (const encoded of [
      'c2VjcmV0',
      'c2VjcmU',
      'c2VjcmU=',
      'c2Vjcg',
      'c2Vjcg==',
      '+/+/',
      '-_-_',
    ]) {
      assert.deepEqual(webhookKey(`whsec_${encoded}`), Buffer.from(encoded, 'base64'));
    }
  });

  test('is refused when it is empty or not what its prefix says, and is not shown', () => {
    assert.throws(() => webhookKey(''), /^TypeError: webhook\.secret/);
    for (const encoded of ['', 'Z', 'c2VjcmV0=', 'c2Vj cmV0', 'c2Vj.mV0', '====']) {
      assert.throws(
        () => webhookKey(`whsec_${encoded}`),
        (error) =>
          error instanceof TypeError &&
          /base64/.test(error.message) &&
          (encoded === '' || !error.message.includes(encoded)),
        encoded,
      );
    }
  });
});
