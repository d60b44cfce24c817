import type { Kysely } from 'kysely';
import type { User } from '../access/permissions.ts';
import type { Tables } from '../tables.ts';
import { readPermissions, readRole } from './users.ts';

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

/** The role and permissions of a user as they were cached last; somebody who never signed in has the least. */
export async function cachedAccess(
  db: Kysely<Tables>,
  userId: string,
): Promise<Pick<User, 'role' | 'permissions'>> {
  const user = await db
    .selectFrom('svc_users')
    .select(['role', 'permissions'])
    .where('id', '=', userId)
    .executeTakeFirst();
  return {
    role: readRole(user?.role ?? ''),
    permissions: readPermissions(user?.permissions ?? '[]'),
  };
}
