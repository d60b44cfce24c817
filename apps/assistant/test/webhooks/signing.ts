import { createHmac, randomUUID } from 'node:crypto';
import type { Server } from '@oselya/kit';
import { Webhook } from 'standardwebhooks';

/** Webhook secret with non-ASCII characters. The signing key is its UTF-8 text. */
export const SECRET = 'a shared secret, спільна таємниця';

type Headers = Record<string, string>;

/** Returns the HMAC-SHA256 of a body. */
export const computeHmac = (body: string | Buffer, secret = SECRET) =>
  createHmac('sha256', secret).update(body).digest();

/** Returns the signature header for a body-only signature. */
export const createHmacHeaders = (body: string | Buffer): Headers => ({
  'x-webhook-signature': computeHmac(body).toString('hex'),
});

/** Returns the headers of Standard Webhooks, signed by the package `standardwebhooks`. */
export function createStandardHeaders(
  body: string,
  {
    id = `msg_${randomUUID()}`,
    sentAt = new Date(),
    key = Buffer.from(SECRET),
  }: { id?: string; sentAt?: Date; key?: Buffer } = {},
) {
  return {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(sentAt.getTime() / 1000)),
    'webhook-signature': new Webhook(key, { format: 'raw' }).sign(id, sentAt, body),
  };
}

/** Posts a body to the webhook. */
export const post = (app: Server, body: string | Buffer, headers: Headers) =>
  app.inject({
    method: 'POST',
    url: '/webhooks/idp',
    payload: body,
    headers: { 'content-type': 'application/json', ...headers },
  });

/** Sends an event in the form of Standard Webhooks. */
export function send(app: Server, event: object, id?: string) {
  const body = JSON.stringify(event);
  return post(app, body, createStandardHeaders(body, id === undefined ? {} : { id }));
}
