import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { expiry, idTokenColumns, type SealedTokens, type Version } from './auth-sessions.sql.ts';

/**
 * Takes the right to refresh a session's tokens. One caller on all instances gets it; it ends by
 * itself when its holder is not heard of again.
 * @returns What tells this lease from those of others, for giving it back; nothing where another has it.
 */
export async function takeRefreshLease(
  db: Kysely<Tables>,
  { id, tokenVersion }: Version,
  leaseMs: number,
): Promise<string | undefined> {
  const taken = await db
    .updateTable('user_auth_sessions')
    .set({ refresh_lease_until: sql<Date>`now() + make_interval(secs => ${leaseMs / 1000})` })
    .where('id', '=', id)
    .where('token_version', '=', tokenVersion)
    .where((where) =>
      where.or([
        where('refresh_lease_until', 'is', null),
        where('refresh_lease_until', '<=', sql<Date>`now()`),
      ]),
    )
    // To the microsecond, which a Date would cut off: another's lease ends later.
    .returning(sql<string>`refresh_lease_until::text`.as('lease'))
    .executeTakeFirst();
  return taken?.lease;
}

/**
 * Gives a lease back without new tokens: those who wait learn that the provider did not answer. Where it had run out
 * and another has one by now, that one stays: a third would redeem the same token beside it.
 */
export async function releaseRefreshLease(
  db: Kysely<Tables>,
  { id, tokenVersion }: Version,
  lease: string,
): Promise<void> {
  await db
    .updateTable('user_auth_sessions')
    .set({ refresh_lease_until: null })
    .where('id', '=', id)
    .where('token_version', '=', tokenVersion)
    .where('refresh_lease_until', '=', sql<Date>`${lease}::timestamptz`)
    .execute();
}

/**
 * Stores new tokens over those of the version they were got with. It only updates: a session that
 * was deleted meanwhile stays deleted. Done twice it does no more than once.
 * @returns Whether there was a session with tokens of that version.
 */
export async function storeRefreshedTokens(
  db: Kysely<Tables>,
  { id, tokenVersion }: Version,
  tokens: SealedTokens,
): Promise<boolean> {
  const result = await db
    .updateTable('user_auth_sessions')
    .set({
      access_token_enc: tokens.accessTokenEnc,
      refresh_token_enc: tokens.refreshTokenEnc,
      ...idTokenColumns(tokens),
      expires_at: expiry(tokens.expiresInSeconds),
      token_version: tokenVersion + 1,
      refresh_lease_until: null,
    })
    .where('id', '=', id)
    .where('token_version', '=', tokenVersion)
    .executeTakeFirst();
  return result.numUpdatedRows > 0n;
}

/**
 * Whether a user has signed in since a moment. A session is dated at the begin of the transaction that
 * stores it, so those of the minute before count too.
 */
export async function hasSignedInSince(
  db: Kysely<Tables>,
  userId: string,
  moment: Date,
): Promise<boolean> {
  const session = await db
    .selectFrom('user_auth_sessions')
    .select('id')
    .where('user_id', '=', userId)
    .where('created_at', '>', sql<Date>`${moment}::timestamptz - interval '1 minute'`)
    .limit(1)
    .executeTakeFirst();
  return session !== undefined;
}
