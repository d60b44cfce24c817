import { createHmac, randomUUID } from 'node:crypto';
import type { Server } from '@oselya/kit';
import { Webhook } from 'standardwebhooks';

/** Not ASCII: its UTF-8 bytes are the key. */
export const SECRET = 'a shared secret, спільна таємниця';

type Headers = Record<string, string>;

/** HMAC-SHA256 of a body, as a form that signs the body alone has it. */
export const hmac = (body: string | Buffer, secret = SECRET) =>
  createHmac('sha256', secret).update(body).digest();

/** The headers of Standard Webhooks, signed by another implementation than the one that is tested. */
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

/** The header of the form that signs the body alone. */
export const hmacHeaders = (body: string | Buffer): Headers => ({
  'x-webhook-signature': hmac(body).toString('hex'),
});

/** Sends a body to the receiver as it is. */
export const post = (app: Server, body: string | Buffer, headers: Headers) =>
  app.inject({
    method: 'POST',
    url: '/webhooks/idp',
    payload: body,
    headers: { 'content-type': 'application/json', ...headers },
  });

/** Sends an event as the provider does, with an id of its own unless told. */
export function send(app: Server, event: object, id?: string) {
  const body = JSON.stringify(event);
  return post(app, body, standardHeaders(body, id === undefined ? {} : { id }));
}
