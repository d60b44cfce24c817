import { createHmac, randomUUID } from 'node:crypto';
import { beforeEach } from 'node:test';
import type { Server } from '@oselya/kit';
import { Webhook } from 'standardwebhooks';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { OLENA } from '../scripted-provider.ts';

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

/**
 * Two instances that take webhooks, with what shows what these did; each test begins with no users and
 * no ledger. Data of users is kept for a while, so that the provider is not asked who they are.
 */
export async function openReceiver() {
  const assistant = await openAssistant({
    IDP_WEBHOOK_SECRET: SECRET,
    IDP_USER_MAX_AGE_SECONDS: '60',
  });
  const { db, provider } = assistant;
  const app = await assistant.instance();
  const second = await assistant.instance();

  beforeEach(async () => {
    provider.reset();
    for (const table of ['svc_users', 'webhook_events', 'audit_log'] as const) {
      await db.deleteFrom(table).execute();
    }
  });

  return {
    ...assistant,
    app,
    second,
    signInAs: (id: string): Promise<Browser> => assistant.signedIn(app, { ...OLENA, sub: id }),
    ledger: () => db.selectFrom('webhook_events').selectAll().orderBy('id').execute(),
    /** The audit trail without the sign-ins. */
    audit: () =>
      db
        .selectFrom('audit_log')
        .select(['action', 'actor_id', 'user_id', 'details'])
        .where('action', '<>', 'signed_in')
        .orderBy('id')
        .execute(),
    /** The users of the sessions that are left. */
    sessions: async (): Promise<string[]> => {
      const rows = await db.selectFrom('user_auth_sessions').select('user_id').execute();
      return rows.map((row) => row.user_id).toSorted();
    },
    /** The users whose permissions are cached. */
    cached: async (): Promise<string[]> => {
      const users = db.selectFrom('svc_users').select('id').where('permissions', '<>', '[]');
      return (await users.execute()).map((row) => row.id).toSorted();
    },
  };
}
