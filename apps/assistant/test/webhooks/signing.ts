import { createHmac, randomUUID } from 'node:crypto';
import type { Server } from '@oselya/kit';
import { Webhook } from 'standardwebhooks';

/** A secret that is not ASCII: the key is its UTF-8 bytes. */
export const SECRET = 'a shared secret, спільна таємниця';

type Headers = Record<string, string>;

/** Returns the HMAC-SHA256 of a body. */
export const hmac = (body: string | Buffer, secret = SECRET) =>
  createHmac('sha256', secret).update(body).digest();

/** Returns the signature header for a body-only signature. */
export const hmacHeaders = (body: string | Buffer): Headers => ({
  'x-webhook-signature': hmac(body).toString('hex'),
});

/** Returns the headers of Standard Webhooks, signed by another implementation. */
export function standardHeaders(
  body: string,
  {
    id = `msg_${randomUUID()}`,
    at = new Date(),
    key = Buffer.from(SECRET),
  }: { id?: string; at?: Date; key?: Buffer } = {},
) {
  return {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': new Webhook(key, { format: 'raw' }).sign(id, at, body),
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
  return post(app, body, standardHeaders(body, id === undefined ? {} : { id }));
}
