import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { bodyFor } from './json-bodies.ts';
import type { HostileAssistant } from './hostile-assistant.ts';
import { headers, headerValue, inAddress, MARK, marked, text } from './text.ts';

const EVENTS = [
  'user.blocked',
  'user.archived',
  'user.deleted',
  'session.revoked',
  'client.roles_changed',
  'client.permissions_changed',
  'auth.global_logout',
];

const event = {
  type: 'object',
  properties: {
    event: { enum: EVENTS },
    type: { enum: EVENTS },
    user_id: { type: 'string' },
    event_id: { type: 'string' },
    data: { type: 'object', properties: { user_id: { type: 'string' } } },
  },
};

/** Headers of both forms of signature, none of which is right. */
const wrongSignature = fc.oneof(
  fc.record({ 'x-webhook-signature': headerValue.map((one) => one + MARK) }, { requiredKeys: [] }),
  fc.stringMatching(/^[0-9a-f]{64}$/).map((one) => ({ 'x-webhook-signature': `sha256=${one}` })),
  fc.record(
    {
      'webhook-id': headerValue,
      'webhook-timestamp': fc.oneof(fc.nat().map(String), headerValue),
      'webhook-signature': headerValue.map((one) => `v1,${one}${MARK}`),
    },
    { requiredKeys: [] },
  ),
);

/** Webhooks that the provider did not send, and some that it should not have sent. */
export function webhookCases({ db, webhookSecret, secrets, play, cases }: HostileAssistant): void {
  cases(
    'a webhook without a right signature is 400 and changes nothing',
    1000,
    fc.record({
      body: fc.oneof(
        bodyFor(event),
        fc.uint8Array().map((one) => Buffer.from(one)),
      ),
      signature: wrongSignature,
      headers,
      query: inAddress(marked),
    }),
    async ({ body, signature, headers: sent, query }) => {
      const { statusCode } = await play({
        method: 'POST',
        url: `/webhooks/idp?${query}`,
        headers: { 'content-type': 'application/json', ...sent, ...signature },
        payload: body,
      });
      // What has no type that could be read is not looked at.
      assert.ok([400, 415].includes(statusCode), String(statusCode));
      const ledger = await db.selectFrom('webhook_events').select('id').limit(1).execute();
      assert.deepEqual(ledger, []);
    },
  );

  /** Who is meant is in the log, and so it is not marked. */
  const named = fc.oneof(text, fc.integer(), fc.constant(null), fc.constant('u-1'));
  const signedEvent = fc.oneof(
    fc.record(
      {
        event: fc.oneof(fc.constantFrom(...EVENTS), text),
        type: fc.oneof(fc.constantFrom(...EVENTS), text),
        user_id: named,
        event_id: named,
        data: fc.oneof(fc.record({ user_id: named }), fc.constant(null)),
        extra: marked,
      },
      { requiredKeys: [] },
    ),
    fc.constantFrom<unknown>(null, 1, 'text', [], {}),
  );
  cases(
    'a webhook that is signed is taken or is no event, and nothing else',
    500,
    fc.record({ value: signedEvent, cut: fc.option(fc.nat(), { freq: 5 }), isHex: fc.boolean() }),
    async ({ value, cut, isHex }) => {
      const whole = Buffer.from(JSON.stringify(value));
      const body = cut === null ? whole : whole.subarray(0, cut % (whole.length + 1));
      const signature = createHmac('sha256', webhookSecret)
        .update(body)
        .digest(isHex ? 'hex' : 'base64');
      secrets.add(signature);
      const { statusCode } = await play({
        method: 'POST',
        url: '/webhooks/idp',
        headers: { 'content-type': 'application/json', 'x-webhook-signature': signature },
        payload: body,
      });
      assert.equal(statusCode, isObject(body) ? 200 : 400);
    },
  );
}

function isObject(body: Buffer): boolean {
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
