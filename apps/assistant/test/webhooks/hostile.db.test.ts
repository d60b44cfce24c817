import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { openReceiver } from './receiver.ts';
import { hmac, hmacHeaders, post, standardHeaders } from './sender.ts';

const { app, ledger } = await openReceiver();

const NAMES = [
  'x-webhook-signature',
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
  'content-type',
  'content-encoding',
  'cookie',
  'origin',
  'x-request-id',
];

/** What Node lets through as the value of a header. */
const headerValue = fc
  .array(fc.integer({ min: 0x20, max: 0xff }), { maxLength: 80 })
  .map((codes) => String.fromCharCode(...codes));

const anyBody = fc.oneof(
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  fc.string({ unit: 'binary', maxLength: 200 }).map((text) => Buffer.from(text)),
  fc.json().map((text) => Buffer.from(text)),
);

const anyMember = fc.oneof(
  fc.jsonValue({ depthSize: 'small' }),
  fc.string({ unit: 'binary' }),
  fc.bigInt().map(String),
  fc.constantFrom('user.blocked', 'client.roles_changed', 'u-1', '\u0000', '\ud800', '__proto__'),
);

const anyEvent = fc
  .record(
    { event: anyMember, type: anyMember, user_id: anyMember, event_id: anyMember, data: anyMember },
    { requiredKeys: [] },
  )
  .map((event) => Buffer.from(JSON.stringify(event)));

test('arbitrary bodies under arbitrary headers are never taken and never 500', async () => {
  const headers = fc.dictionary(fc.constantFrom(...NAMES), headerValue);
  await fc.assert(
    fc.asyncProperty(anyBody, headers, async (body, given) => {
      const { statusCode } = await post(app, body, given);
      assert.ok(statusCode === 400 || statusCode === 415, String(statusCode));
    }),
    { numRuns: 1000 },
  );
  assert.deepEqual(await ledger(), []);
});

test('arbitrary bodies and events that are signed are 200 or 400, in both forms', async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(anyBody, anyEvent), fc.boolean(), async (body, isStandard) => {
      // The other implementation signs text only, so what is no text is signed in the other form.
      const isText = Buffer.from(body.toString()).equals(body);
      const headers = isStandard && isText ? standardHeaders(body.toString()) : hmacHeaders(body);
      const answer = await post(app, body, headers);
      if (answer.statusCode === 200) assert.deepEqual(answer.json(), { ok: true });
      else assert.equal(answer.json().code, 'malformed_request');
    }),
    { numRuns: 400 },
  );
  const rows = await ledger();
  assert.ok(rows.some((row) => row.outcome === 'ignored'));
});

test('a signed webhook with anything changed is 400', async () => {
  const body = '{"event":"user.blocked","user_id":"u-1"}';
  const signed = standardHeaders(body);
  const bodyAlone = { 'x-webhook-signature': hmac(body).toString('base64') };
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom<Record<string, string>>(signed, bodyAlone),
      fc.nat(),
      headerValue,
      async (headers, at, value) => {
        const names = Object.keys(headers);
        const name = names[at % names.length] ?? '';
        fc.pre(headers[name] !== value.trim());
        assert.equal((await post(app, body, { ...headers, [name]: value })).statusCode, 400);
        assert.equal(
          (await post(app, `${body}${' '.repeat(1 + (at % 9))}`, headers)).statusCode,
          400,
        );
      },
    ),
    { numRuns: 300 },
  );
  assert.deepEqual(await ledger(), []);
});
