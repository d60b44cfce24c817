import { type Kysely, sql } from 'kysely';
import type { Tables } from './tables.ts';

/** The version of pgvector, and how wide the embeddings of listings are; undefined where it is not installed. */
export async function readVectorSupport(
  db: Kysely<Tables>,
): Promise<{ version: string; width: number } | undefined> {
  // For pgvector's type the modifier is the width.
  const { rows } = await sql<{ version: string; width: number }>`
    select extversion as version,
           (select atttypmod from pg_attribute
            where attrelid = 'property_listings'::regclass and attname = 'embedding') as width
    from pg_extension where extname = 'vector'`.execute(db);
  return rows[0];
}
