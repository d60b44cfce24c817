import type pg from 'pg';
import { until } from '../support/until.ts';

/**
 * Vacuums and analyzes a table until all of it is known to be visible to everybody: plans depend on how much is. A
 * snapshot from before the last commit keeps its rows from that, such as the one with which autovacuum just then
 * analyzes another table.
 */
export async function vacuum(pool: pg.Pool, table: string): Promise<void> {
  await until(`all of ${table} is visible to everybody`, async () => {
    await pool.query(`vacuum analyze ${table}`);
    const { rows } = await pool.query<{ isVisible: boolean }>(
      `select relallvisible = relpages as "isVisible" from pg_class where oid = $1::regclass`,
      [table],
    );
    return rows[0]?.isVisible;
  });
}
