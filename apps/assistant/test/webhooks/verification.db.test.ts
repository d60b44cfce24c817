import assert from 'node:assert/strict';
import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { openReceiver } from './receiver.ts';
import { hmac, hmacHeaders, post, standardHeaders } from './sender.ts';

const { app, instance, lines, signInAs, ledger, audit, sessions } = await openReceiver();

const BODY = JSON.stringify({ event: 'user.blocked', user_id: 'u-1' });
const hex = hmac(BODY).toString('hex');
const old = new Date(Date.now() - 3600_000);

for (const [name, headers] of [
  ['no signature', {}],
  ['a wrong signature', { 'x-webhook-signature': '0'.repeat(64) }],
  ['a signature of the wrong length', { 'x-webhook-signature': hex.slice(1) }],
  ['a signature that is not ASCII', { 'x-webhook-signature': 'é'.repeat(64) }],
  ['an old delivery', standardHeaders(BODY, { at: old })],
  ['another key', standardHeaders(BODY, { key: Buffer.from('another') })],
  ['half of the headers', { 'webhook-id': 'msg_1', 'x-webhook-signature': hex }],
] as const) {
  test(`${name} is 400, changes nothing and leaves no trace`, async () => {
    await signInAs('u-1');
    lines.length = 0;
    const answer = await post(app, BODY, headers);
    assert.equal(answer.statusCode, 400);
    assert.equal(answer.headers['content-type'], 'application/problem+json');
    assert.equal(answer.json().code, 'webhook_not_verified');
    assert.deepEqual(await sessions(), ['u-1']);
    assert.deepEqual([await ledger(), await audit()], [[], []]);
    assert.ok(lines.some((line) => line.includes('"level":"warn"') && line.includes('"reason"')));
  });
}

test('during a rotation the old secrets verify too, and no others', async () => {
  const rotating = await instance({
    IDP_WEBHOOK_SECRET: 'the next secret',
    IDP_WEBHOOK_SECRETS_OLD: `another, whsec_${Buffer.alloc(24, 7).toString('base64')}`,
  });
  const statusOf = async (headers: Record<string, string>) =>
    (await post(rotating, BODY, headers)).statusCode;
  for (const secret of ['the next secret', 'another']) {
    const bodyAlone = { 'x-webhook-signature': hmac(BODY, secret).toString('hex') };
    assert.equal(await statusOf(bodyAlone), 200, secret);
    assert.equal(await statusOf(standardHeaders(BODY, { key: Buffer.from(secret) })), 200, secret);
  }
  assert.equal(await statusOf(standardHeaders(BODY, { key: Buffer.alloc(24, 7) })), 200);
  assert.equal(await statusOf(hmacHeaders(BODY)), 400);
  assert.equal(await statusOf(standardHeaders(BODY)), 400);
});

test('where only Standard Webhooks count, an HMAC of the body is 400', async () => {
  const strict = await instance({ IDP_WEBHOOK_STANDARD_ONLY: 'true' });
  lines.length = 0;
  const answer = await post(strict, BODY, hmacHeaders(BODY));
  assert.equal(answer.json().code, 'webhook_not_verified');
  assert.ok(lines.some((line) => line.includes('"reason":"standard_webhooks_only"')));
  assert.equal((await post(strict, BODY, standardHeaders(BODY))).statusCode, 200);
});

test('without a secret every webhook is 400', async () => {
  const unset = await instance({ IDP_WEBHOOK_SECRET: '' });
  const empty = { 'x-webhook-signature': hmac(BODY, '').toString('hex') };
  for (const headers of [empty, hmacHeaders(BODY), standardHeaders(BODY)]) {
    assert.equal((await post(unset, BODY, headers)).json().code, 'webhook_not_verified');
  }
});

test('the configured header is the one that carries the HMAC', async () => {
  const own = await instance({ IDP_WEBHOOK_SIGNATURE_HEADER: 'X-Home-Signature' });
  const refused = await post(own, BODY, hmacHeaders(BODY));
  assert.deepEqual([refused.statusCode, refused.json().code], [400, 'webhook_not_verified']);
  assert.deepEqual(await ledger(), []);
  assert.equal((await post(own, BODY, { 'x-home-signature': hex })).statusCode, 200);
  assert.equal((await ledger()).length, 1);
});

for (const body of ['', '{', '[]', 'null', '"user.blocked"', '\ud800']) {
  test(`${JSON.stringify(body)} with a valid signature is 400 and says that the body is at fault`, async () => {
    for (const headers of [hmacHeaders(body), standardHeaders(body)]) {
      const answer = await post(app, body, headers);
      assert.equal(answer.statusCode, 400);
      assert.equal(answer.json().code, 'malformed_request');
      assert.match(answer.json().detail, /signature is valid/);
    }
    assert.deepEqual(await ledger(), []);
  });
}

for (const type of [
  'application/json; charset=utf-8',
  'text/plain',
  'application/x-www-form-urlencoded',
  'application/cloudevents+json',
  'image/png',
  undefined,
]) {
  test(`a body that is called ${type ?? 'nothing'} is taken as it is`, async () => {
    const answer = await app.inject({
      method: 'POST',
      url: '/webhooks/idp',
      payload: Buffer.from(BODY),
      headers: { ...hmacHeaders(BODY), ...(type && { 'content-type': type }) },
    });
    assert.equal(answer.statusCode, 200);
  });
}

test('64 KiB are taken, one byte more is 413', async () => {
  const body = BODY.padEnd(64 * 1024, ' ');
  assert.equal((await post(app, body, hmacHeaders(body))).statusCode, 200);
  const larger = `${body} `;
  assert.equal((await post(app, larger, hmacHeaders(larger))).statusCode, 413);
  assert.equal((await ledger()).length, 1);
});

test('a cookie that comes along neither helps nor hurts', async () => {
  const browser = await signInAs('u-1');
  const cookies = { svc_auth_session: browser.sid };
  const send = (headers: Record<string, string>) =>
    app.inject({ method: 'POST', url: '/webhooks/idp', payload: BODY, cookies, headers });
  assert.equal((await send({})).statusCode, 400);
  assert.equal((await send(hmacHeaders(BODY))).statusCode, 200);
  const elsewhere = { 'sec-fetch-site': 'cross-site', origin: 'https://idp.test' };
  assert.equal((await send({ ...hmacHeaders(BODY), ...elsewhere })).statusCode, 200);
});

test('headers that are sent twice are 400', async () => {
  const own = await instance();
  await own.listen({ port: 0, host: '127.0.0.1' });
  const { port } = own.server.address() as AddressInfo;
  const signed = standardHeaders(BODY);
  const twice = (headers: Record<string, string>, name: string) => {
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
    const all = { ...headers, [name]: [headers[name] ?? '', headers[name] ?? ''] };
    const sent = request(
      { port, method: 'POST', path: '/webhooks/idp', headers: all },
      (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      },
    );
    sent.on('error', reject).end(BODY);
    return promise;
  };
  assert.equal(await twice(hmacHeaders(BODY), 'x-webhook-signature'), 400);
  for (const name of Object.keys(signed)) assert.equal(await twice(signed, name), 400, name);
  assert.equal(await twice(hmacHeaders(BODY), 'x-other'), 200);
});
