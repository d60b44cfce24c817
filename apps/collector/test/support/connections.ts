import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../src/tables.ts';

/** An address by which a server can tell the connections of whoever uses it from others. */
export function named(url: string, name: string): string {
  const address = new URL(url);
  address.searchParams.set('application_name', name);
  return address.href;
}

/** How many connections the server has of clients of a name, whatever these think of them. */
export async function countConnections(db: Kysely<Tables>, name: string): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*)::integer as n from pg_stat_activity
    where datname = current_database() and application_name = ${name}`.execute(db);
  return rows[0]?.n ?? 0;
}
