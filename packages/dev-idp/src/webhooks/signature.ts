import { createHmac } from 'node:crypto';

const encodedKeyPrefix = 'whsec_';

/**
 * The key that a shared secret stands for: the secret's UTF-8 bytes, or, behind the prefix `whsec_`,
 * what the rest encodes in base64 of either alphabet (Standard Webhooks, Signature scheme).
 *
 * @throws TypeError when the secret is empty, or what follows the prefix is no base64
 */
export function webhookKey(secret: string): Buffer {
  if (secret === '')
    throw new TypeError('webhook.secret: give the secret shared with the receiver');
  if (!secret.startsWith(encodedKeyPrefix)) return Buffer.from(secret, 'utf8');
  const encoded = secret.slice(encodedKeyPrefix.length);
  if (!/^(?:[\w+/-]{4})*(?:[\w+/-]{2,3}={0,2})?$/.test(encoded) || encoded === '') {
    throw new TypeError(`webhook.secret: after ${encodedKeyPrefix} give the key in base64`);
  }
  return Buffer.from(encoded, 'base64');
}

/** What identifies and signs one attempt to deliver a message; the timestamp is in Unix seconds. */
export type SignedContent = {
  id: string;
  timestamp: number;
  body: string;
};

/** The three headers of a signed message (Standard Webhooks, Webhook headers). */
export function signedHeaders(
  key: Buffer,
  { id, timestamp, body }: SignedContent,
): Record<string, string> {
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${signature}`,
  };
}
