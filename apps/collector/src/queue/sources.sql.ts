import { type Kysely, sql } from 'kysely';
import type { Tables } from '../database/tables.ts';

/** How long ago a source's last payload may have been completed for more to be expected of it. */
const ACTIVE_DAYS = 7;

/**
 * Whether more than one source has something to do, or something that was done within a week. The orders are those
 * of indexes: for most of a table the planner would else rather read the table.
 */
export async function hasSeveralSources(db: Kysely<Tables>): Promise<boolean> {
  const { rows } = await sql`
    select from sources
    where exists (
        select from raw_data
        where source_slug = slug and status in ('pending', 'processing')
        order by external_id offset 0)
      or now() - ${ACTIVE_DAYS} * interval '1 day' < (
        select updated_at from raw_data
        where source_slug = slug and status = 'completed'
        order by updated_at desc limit 1)
    limit 2`.execute(db);
  return rows.length > 1;
}
