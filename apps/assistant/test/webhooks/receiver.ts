import { beforeEach } from 'node:test';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { OLENA } from '../scripted-provider.ts';
import { SECRET } from './sender.ts';

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
