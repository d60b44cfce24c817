import { type Kysely, sql } from 'kysely';

/**
 * Asks the database for nothing but an answer.
 * @throws DatabaseError DATABASE_UNREACHABLE where there is none.
 */
export async function ping<Schema>(db: Kysely<Schema>): Promise<void> {
  await sql`select 1`.execute(db);
}
