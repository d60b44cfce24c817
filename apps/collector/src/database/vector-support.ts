import { StartError } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from './tables.ts';
import { readVectorSupport } from './vector-support.sql.ts';

/** The first pgvector with iterative scans, without which a filtered search returns too few rows. */
const MIN_PGVECTOR = [0, 8] as const;

/**
 * Makes sure that the database can hold and search the embeddings that the configuration asks for.
 * @throws StartError for a pgvector that is too old, or a column made for another width.
 */
export async function checkVectorSupport(db: Kysely<Tables>, dimensions: number): Promise<void> {
  const { version = 'missing', width } = (await readVectorSupport(db)) ?? {};
  if (!isRecent(version)) {
    throw new StartError(
      `The database's pgvector is ${version}, 0.8 or later is needed: install it, then run "alter extension vector update"`,
    );
  }
  if (width !== dimensions) {
    throw new StartError(
      `EMBEDDING_DIMENSIONS is ${dimensions}, but the database holds embeddings of ${width} numbers: set EMBEDDING_DIMENSIONS=${width} and a model of that width, or use a new database`,
    );
  }
}

/** Whether a version, such as 0.8.0, is the first that serves or a later one. */
export function isRecent(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [leastMajor, leastMinor] = MIN_PGVECTOR;
  return major > leastMajor || (major === leastMajor && minor >= leastMinor);
}
