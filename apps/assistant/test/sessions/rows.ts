import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../src/tables.ts';

/** A session as it may stand in the table; the times are as PostgreSQL reads them. */
type SessionRow = {
  id: string;
  user_id?: string | null;
  profile_id?: string | null;
  name?: string | null;
  pinned?: boolean | null;
  created_at?: string | null;
  last_active?: string | null;
};

/** Adds sessions as they are given; what is left out is as an older system may have left it: null. */
export async function addSessions(db: Kysely<Tables>, ...rows: SessionRow[]): Promise<void> {
  for (const row of rows) {
    await sql`
      insert into conversation_sessions
        (id, user_id, profile_id, name, pinned, created_at, last_active)
      values (${row.id}, ${row.user_id ?? null}, ${row.profile_id ?? null}, ${row.name ?? null},
        ${row.pinned ?? null}, ${row.created_at ?? null}::timestamptz,
        ${row.last_active ?? null}::timestamptz)`.execute(db);
  }
}

/** Adds messages of a session, one after another. */
export async function addMessages(
  db: Kysely<Tables>,
  sessionId: string,
  ...contents: string[]
): Promise<void> {
  for (const content of contents) {
    await db
      .insertInto('conversation_messages')
      .values({ session_id: sessionId, role: 'user', content })
      .execute();
  }
}

/** What the audit trail says of reading and changing others' data, and forgets it. */
export async function takeAudit(db: Kysely<Tables>) {
  const lines = await db
    .deleteFrom('audit_log')
    .where('action', 'like', 'others_data_%')
    .returning(['id', 'action', 'actor_id', 'user_id', 'details'])
    .execute();
  return lines
    .toSorted((one, other) => one.id - other.id)
    .map(({ action, actor_id, user_id, details }) => ({ action, actor_id, user_id, details }));
}
