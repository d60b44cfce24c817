import { sql, type Transaction } from 'kysely';
import type { User } from '../access/permissions.ts';
import { recordAudit } from '../admin/audit.ts';
import type { Tables } from '../tables.ts';
import { saysTheSame } from './users.ts';

/**
 * Creates a user record, or brings it up to date; it is not written where nothing changed. That a role
 * changed is in the audit trail, or the role has not changed.
 * @param isCurrent Whether what the provider said counts, by how often the cached access has been cleared
 * by now. What does not count leaves a record as it is, and makes one without a role and permissions.
 * @returns That number.
 */
export async function saveUser(
  trx: Transaction<Tables>,
  user: User,
  isCurrent: (generation: number) => boolean,
): Promise<number> {
  const { id, email, display_name, role } = user;
  const permissions = JSON.stringify(user.permissions);
  const created = await trx
    .insertInto('svc_users')
    .values({
      id,
      email,
      display_name,
      ...(isCurrent(0) ? { role, permissions } : { role: 'user', permissions: '[]' }),
      created_at: sql<Date>`now()`,
      updated_at: sql<Date>`now()`,
    })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .returning('access_generation as generation')
    .executeTakeFirst();
  if (created !== undefined) return created.generation;

  const { generation, ...cached } = await trx
    .selectFrom('svc_users')
    .select(['email', 'display_name', 'role', 'permissions', 'access_generation as generation'])
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow();
  if (!isCurrent(generation) || saysTheSame(cached, user)) return generation;
  await trx
    .updateTable('svc_users')
    .set({ email, display_name, role, permissions, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute();
  if (cached.role !== role) {
    const details = { from: cached.role, to: role };
    await recordAudit(trx, { action: 'role_changed', actorId: null, userId: id, details });
  }
  return generation;
}
