import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';

/** Which users are asked for. */
export type UserQuery = {
  /** Part of the email or the display name, in whatever case. */
  text?: string | undefined;
  /** The last user of the page before. */
  afterId?: string | undefined;
};

/** Users by id, and one more than `limit` where there are more. */
export async function listUsers(db: Kysely<Tables>, { text, afterId }: UserQuery, limit: number) {
  let query = db
    .selectFrom('svc_users')
    .select(['id', 'email', 'display_name', 'role', 'permissions'])
    // Tables of an older system may lack the times.
    .select(sql<Date | null>`created_at`.as('created_at'))
    .select(sql<Date | null>`updated_at`.as('updated_at'))
    .orderBy('id')
    .limit(limit + 1);
  if (afterId !== undefined) query = query.where('id', '>', afterId);
  if (text !== undefined) {
    query = query.where(
      sql<boolean>`(position(lower(${text}) in lower(email)) > 0
        or position(lower(${text}) in lower(display_name)) > 0)`,
    );
  }
  return query.execute();
}

/** Whether somebody has signed in at least once. */
export async function userExists(db: Kysely<Tables>, id: string): Promise<boolean> {
  const user = await db
    .selectFrom('svc_users')
    .select('id')
    .where('id', '=', id)
    .executeTakeFirst();
  return user !== undefined;
}
