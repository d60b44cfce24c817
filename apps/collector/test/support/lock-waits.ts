import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../src/tables.ts';
import { until } from './until.ts';

/** Waits until a statement waits for a lock; the embedded database, which takes one at a time, has none that do. */
export function untilLockWait(db: Kysely<Tables>): Promise<true> {
  return until('a statement to wait for a lock', async () => {
    const { rows } = await sql`select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
    return rows.length > 0;
  });
}
