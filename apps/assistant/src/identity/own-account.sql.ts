import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';

/** What is stored of a user's account, without any secret of a sign-in; for the user. */
export async function readOwnAccount(db: Kysely<Tables>, userId: string) {
  const user = await db
    .selectFrom('svc_users')
    .select(['id', 'email', 'display_name', 'role', 'permissions', 'created_at', 'updated_at'])
    .where('id', '=', userId)
    .executeTakeFirst();
  const signIns = await db
    .selectFrom('user_auth_sessions')
    .select(['created_at', 'last_used_at', 'user_agent', 'address'])
    .where('user_id', '=', userId)
    .orderBy('created_at')
    .execute();
  return { user, signIns };
}
