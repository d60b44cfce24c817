import { type Insertable, type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';

const columns = ['id', 'name', 'scopes', 'source_slugs'] as const;

/** Stores a key. */
export async function insertKey(
  db: Kysely<Tables>,
  row: Insertable<Tables['api_keys']>,
): Promise<void> {
  await db.insertInto('api_keys').values(row).execute();
}

/** Every key, revoked ones too, the oldest first. */
export function listKeys(db: Kysely<Tables>) {
  return db
    .selectFrom('api_keys')
    .select([...columns, 'created_at', 'last_used_at', 'revoked_at'])
    .orderBy('created_at')
    .orderBy('id')
    .execute();
}

/** Ends a key's use; false where there is none, or it was revoked before. */
export async function revokeKey(db: Kysely<Tables>, id: string): Promise<boolean> {
  const result = await db
    .updateTable('api_keys')
    .set({ revoked_at: sql<Date>`now()` })
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .executeTakeFirst();
  return result.numUpdatedRows > 0n;
}

/** The key of a hash, unless it is revoked, and whether its use was noted within the last minute. */
export async function findKey(db: Kysely<Tables>, keyHash: string) {
  const row = await db
    .selectFrom('api_keys')
    .select([
      ...columns,
      sql<boolean | null>`last_used_at > now() - interval '1 minute'`.as('seen'),
    ])
    .where('key_hash', '=', keyHash)
    .where('revoked_at', 'is', null)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  const { seen, ...key } = row;
  return { key, isSeen: seen === true };
}

/** Notes that a key was used just now. */
export async function touchKey(db: Kysely<Tables>, id: string): Promise<void> {
  await db
    .updateTable('api_keys')
    .set({ last_used_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute();
}
