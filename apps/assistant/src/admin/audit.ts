import { createCursorCodec, createPageQuery, type Server, paginate } from '@oselya/kit';
import { type Kysely, sql, type SqlBool } from 'kysely';
import { Type } from 'typebox';
import { problem } from '../errors.ts';
import { nullable, timestamp, userIdSchema } from '../schema.ts';
import type { Tables } from '../tables.ts';
import type { Sweep } from '../upkeep.ts';

/** Audit actions. Contract 3, Further endpoints. */
export const auditActions = [
  'signed_in',
  'signed_out',
  /** A user ended one of their auth sessions in the list of sign-ins. It may be the current one. */
  'sign_in_ended',
  /** An admin or the provider ended the auth sessions of a user, of a session at the provider, or of all users. */
  'sign_ins_ended',
  'session_rejected',
  'sign_in_failed',
  /** The cached role was changed, at the provider or by an admin. */
  'role_changed',
  'access_cleared',
  'legacy_assigned',
  'others_data_read',
  'others_data_changed',
  'own_data_exported',
  'own_data_deleted',
  'profile_availability_asked',
  'collector_read',
  'collector_changed',
] as const;

export type AuditAction = (typeof auditActions)[number];

type AuditDetails = Readonly<Record<string, string | number | boolean | null>>;

/**
 * Appends an audit entry. Call it in the action's transaction, or before the response.
 * @param entry.actorId Null for the provider, the operator's command, and an unknown actor.
 * @param entry.userId Owner of the data or auth session; null for several or all users, and for no or an unknown owner.
 */
export async function recordAudit(
  db: Kysely<Tables>,
  entry: {
    action: AuditAction;
    actorId: string | null;
    userId: string | null;
    details?: AuditDetails;
  },
): Promise<void> {
  await db
    .insertInto('audit_log')
    .values({
      action: entry.action,
      actor_id: entry.actorId,
      user_id: entry.userId,
      details: sql<string>`${JSON.stringify(entry.details ?? {})}::jsonb`,
    })
    .execute();
}

/**
 * Records access to data, unless the actor owns it. `ownerId` is null for data without an owner, or of several users.
 */
export async function recordOthersData(
  db: Kysely<Tables>,
  action: 'others_data_read' | 'others_data_changed',
  access: { actorId: string; ownerId: string | null; details: AuditDetails },
): Promise<void> {
  const { actorId, ownerId, details } = access;
  if (ownerId !== actorId) await recordAudit(db, { action, actorId, userId: ownerId, details });
}

/** Lists at most `limit` audit entries, newest first. `since` (inclusive) and `until` (exclusive) are Unix seconds. */
export function listAudit(
  db: Kysely<Tables>,
  filter: {
    action?: AuditAction | undefined;
    actorId?: string | undefined;
    userId?: string | undefined;
    since?: number | undefined;
    until?: number | undefined;
    beforeId?: number | undefined;
  },
  limit: number,
) {
  const { action, actorId, userId, since, until, beforeId } = filter;
  const conditions = [
    action !== undefined && sql<SqlBool>`action = ${action}`,
    actorId !== undefined && sql<SqlBool>`actor_id = ${actorId}`,
    userId !== undefined && sql<SqlBool>`user_id = ${userId}`,
    since !== undefined && sql<SqlBool>`created_at >= to_timestamp(${since})`,
    until !== undefined && sql<SqlBool>`created_at < to_timestamp(${until})`,
    beforeId !== undefined && sql<SqlBool>`id < ${beforeId}`,
  ].filter((condition) => condition !== false);
  return db
    .selectFrom('audit_log')
    .select(['id', 'created_at', 'action', 'actor_id', 'user_id'])
    .select(sql<AuditDetails>`details`.as('details'))
    .where((where) => where.and(conditions))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}

/** Creates the sweep that deletes audit entries after `retentionDays`. */
export const sweepAudit =
  (retentionDays: number): Sweep =>
  (limit) =>
    sql`
    delete from audit_log where id in (
      select id from audit_log where created_at < now() - make_interval(days => ${retentionDays})
      order by created_at limit ${limit} for update skip locked
    )`;

const PAGE_LIMITS = { limit: 100, maxLimit: 500 };

const entryCursorCodec = createCursorCodec(
  Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
);

const auditEntrySchema = Type.Object({
  id: Type.Integer(),
  created_at: timestamp(),
  action: Type.String({ description: 'The action. Later versions may add actions.' }),
  actor_id: nullable(
    Type.String({
      description:
        "The user who acted; null for the provider, the operator's command and an unknown actor.",
    }),
  ),
  user_id: nullable(
    Type.String({
      description: 'The owner of the data or sign-in; null for all users, or an unknown owner.',
    }),
  ),
  details: Type.Object({}, { additionalProperties: true }),
});

const auditEntryExample = {
  id: 1042,
  created_at: '2026-03-04T17:42:10.000Z',
  action: 'role_changed',
  actor_id: 'u-7',
  user_id: 'u-1',
  details: { from: 'user', to: 'admin' },
};

/** Registers `GET /admin/audit`. Contract 3, Further endpoints. */
export function registerAuditRoute(app: Server, db: Kysely<Tables>): void {
  app.get(
    '/admin/audit',
    {
      config: { access: { permission: 'svc.admin.access' }, errors: [] },
      schema: {
        tags: ['admin'],
        summary: 'The audit trail',
        querystring: Type.Object({
          action: Type.Optional(Type.Union(auditActions.map((action) => Type.Literal(action)))),
          actor_id: Type.Optional(userIdSchema),
          user_id: Type.Optional(userIdSchema),
          since: Type.Optional(timestamp('Lines from this time on.')),
          until: Type.Optional(timestamp('Lines before this time.')),
          ...createPageQuery(PAGE_LIMITS),
        }),
        response: {
          200: Type.Array(auditEntrySchema, {
            description: 'The trail, newest first.',
            examples: [[auditEntryExample]],
          }),
        },
      },
    },
    async (request, reply) => {
      const { limit = PAGE_LIMITS.limit, cursor, ...query } = request.query;
      const filter = {
        action: query.action,
        actorId: query.actor_id,
        userId: query.user_id,
        since: toSeconds('since', query.since),
        until: toSeconds('until', query.until),
        beforeId: entryCursorCodec.read(cursor),
      };
      const rows = await listAudit(db, filter, limit + 1);
      const encodeCursor = ({ id }: { id: number }) => entryCursorCodec.write(id);
      return paginate(rows, { limit, getCursor: encodeCursor, request, reply }).map((row) => ({
        ...row,
        created_at: row.created_at.toISOString(),
      }));
    },
  );
}

/** Converts a time to Unix seconds. Rejects times that the schema accepts but `Date` does not, such as leap seconds. */
function toSeconds(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const seconds = Date.parse(text) / 1000;
  if (Number.isNaN(seconds)) {
    const message = 'must be a time that exists, such as 2026-03-04T17:42:10Z';
    throw problem('validation_failed', { errors: [{ path: `querystring/${name}`, message }] });
  }
  return seconds;
}
