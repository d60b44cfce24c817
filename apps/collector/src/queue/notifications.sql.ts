import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';

/** The channel on which workers of other processes hear that there may be work. */
export const CHANNEL = 'collector_raw';

/** Tells every process that listens. */
export async function notifyWorkers(db: Kysely<Tables>): Promise<void> {
  await sql`select pg_notify(${CHANNEL}, '')`.execute(db);
}
