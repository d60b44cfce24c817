import { StartError } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import type { Tables } from './database.ts';

/**
 * Makes sure that embeddings of the configured width fit the column that was made for them.
 * @throws StartError that names both widths.
 */
export async function checkEmbeddingWidth(db: Kysely<Tables>, dimensions: number): Promise<void> {
  // For pgvector's type the modifier is the width.
  const { rows } = await sql<{ width: number }>`
    select atttypmod as width from pg_attribute
    where attrelid = 'property_listings'::regclass and attname = 'embedding'`.execute(db);
  const width = rows[0]?.width;
  if (width === dimensions) return;
  throw new StartError(
    `EMBEDDING_DIMENSIONS is ${dimensions}, but the database holds embeddings of ${width} numbers: set EMBEDDING_DIMENSIONS=${width} and a model of that width, or use a new database`,
  );
}
