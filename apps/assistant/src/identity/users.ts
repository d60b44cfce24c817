import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import type { UserData } from './provider/user-data.ts';

/** What the user record holds of the provider's data. Specification 000, User record. */
export type CachedUser = {
  email: string;
  display_name: string | null;
  role: string;
  permissions: string;
};

/** Whether the record says the same as the provider. */
export function isCurrent(cached: CachedUser, user: UserData): boolean {
  return (
    cached.email === user.email &&
    cached.display_name === user.display_name &&
    cached.role === user.role &&
    cached.permissions === JSON.stringify(user.permissions)
  );
}

/** Creates a user record, or brings it up to date; it is not written where nothing changed. */
export async function saveUser(db: Kysely<Tables>, user: UserData): Promise<void> {
  const data = {
    email: user.email,
    display_name: user.display_name,
    role: user.role,
    permissions: JSON.stringify(user.permissions),
  };
  await db
    .insertInto('svc_users')
    .values({ id: user.id, ...data })
    .onConflict((conflict) =>
      conflict
        .column('id')
        .doUpdateSet({ ...data, updated_at: sql<Date>`now()` })
        .where(
          sql<boolean>`(svc_users.email, svc_users.display_name, svc_users.role, svc_users.permissions)
            is distinct from (excluded.email, excluded.display_name, excluded.role, excluded.permissions)`,
        ),
    )
    .execute();
}
