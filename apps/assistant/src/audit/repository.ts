import { type Kysely, sql } from 'kysely';
import type { Sweep } from '../maintenance/sweep.ts';
import type { Tables } from '../tables.ts';
import type { AuditAction } from './actions.ts';
import type { AuditDetails } from './record.sql.ts';

/** Which lines of the trail are asked for: those that meet every condition. */
export type AuditQuery = {
  action?: AuditAction | undefined;
  actorId?: string | undefined;
  userId?: string | undefined;
  /** Unix times in seconds; the first is included, the second is not. */
  since?: number | undefined;
  until?: number | undefined;
  /** The last line of the page before. */
  beforeId?: number | undefined;
};

/** Lines of the trail, newest first, and one more than `limit` where there are more. */
export async function listAudit(db: Kysely<Tables>, asked: AuditQuery, limit: number) {
  let query = db
    .selectFrom('audit_log')
    .select(['id', 'created_at', 'action', 'actor_id', 'user_id'])
    .select(sql<AuditDetails>`details`.as('details'))
    .orderBy('id', 'desc')
    .limit(limit + 1);
  const { action, actorId, userId, since, until, beforeId } = asked;
  if (action !== undefined) query = query.where('action', '=', action);
  if (actorId !== undefined) query = query.where('actor_id', '=', actorId);
  if (userId !== undefined) query = query.where('user_id', '=', userId);
  if (since !== undefined)
    query = query.where('created_at', '>=', sql<Date>`to_timestamp(${since})`);
  if (until !== undefined)
    query = query.where('created_at', '<', sql<Date>`to_timestamp(${until})`);
  if (beforeId !== undefined) query = query.where('id', '<', beforeId);
  return query.execute();
}

/** Deletes lines that are older than the trail is kept. */
export const sweepAudit =
  (retentionDays: number): Sweep =>
  (limit) =>
    sql`
    delete from audit_log where id in (
      select id from audit_log where created_at < now() - make_interval(days => ${retentionDays})
      order by created_at limit ${limit} for update skip locked
    )`;
