import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import type { EndedSession } from './auth-sessions.sql.ts';

/** An ended session whose tokens a process has claimed; `attempts` counts this claim. */
export type ClaimedRevocation = EndedSession & { revocationId: number; attempts: number };

/** Stores the tokens of ended sessions until they are revoked at the provider. */
export async function addRevocations(
  db: Kysely<Tables>,
  sessions: readonly EndedSession[],
): Promise<void> {
  const column = (name: keyof EndedSession) => sessions.map((session) => session[name]);
  await sql`
    insert into token_revocations (session_id, user_id, access_token_enc, refresh_token_enc)
    select * from unnest(${column('id')}::text[], ${column('userId')}::text[],
      ${column('accessTokenEnc')}::text[], ${column('refreshTokenEnc')}::text[])`.execute(db);
}

/**
 * Claims tokens that are due, oldest first. A claim postpones the next one, twice as long each time, so that a row
 * whose process crashes becomes due again.
 * @param retrySeconds The delay after the first claim; longer than a call to the provider.
 */
export async function claimRevocations(
  db: Kysely<Tables>,
  { limit, retrySeconds }: { limit: number; retrySeconds: number },
): Promise<ClaimedRevocation[]> {
  const { rows } = await sql<ClaimedRevocation>`
    update token_revocations
    set attempts = attempts + 1,
      due_at = now() + make_interval(secs => ${retrySeconds}::float8 * power(2, attempts))
    where id in (
      select id from token_revocations where due_at <= now()
      order by due_at limit ${limit} for update skip locked
    )
    returning id as "revocationId", session_id as id, user_id as "userId",
      access_token_enc as "accessTokenEnc", refresh_token_enc as "refreshTokenEnc", attempts`.execute(
    db,
  );
  return rows;
}

/** Deletes claimed tokens that are revoked or given up. */
export async function deleteRevocation(
  db: Kysely<Tables>,
  { revocationId }: ClaimedRevocation,
): Promise<void> {
  await db.deleteFrom('token_revocations').where('id', '=', revocationId).execute();
}
