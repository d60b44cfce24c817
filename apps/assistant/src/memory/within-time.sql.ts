import { type Kysely, sql, type Transaction } from 'kysely';
import type { Tables } from '../tables.ts';

/** PostgreSQL's query_canceled: Appendix A, Error Codes. */
const QUERY_CANCELED = '57014';

/**
 * Runs statements that may go through very many rows. The server ends each of them after a time by itself, and the
 * connection serves on: a client that gives a statement up leaves the server at work on it. The embedded database
 * knows no such end, and goes through what it has.
 * @param ms Of each statement.
 * @returns What the work gives; nothing where a statement was ended.
 */
export async function withinTime<Result extends object>(
  db: Kysely<Tables>,
  ms: number,
  work: (trx: Transaction<Tables>) => Promise<Result>,
): Promise<Result | undefined> {
  try {
    return await db.transaction().execute(async (trx) => {
      await sql`select set_config('statement_timeout', ${String(ms)}, true)`.execute(trx);
      return work(trx);
    });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === QUERY_CANCELED)
      return undefined;
    throw error;
  }
}
