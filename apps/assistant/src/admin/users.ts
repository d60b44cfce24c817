import { retryConflicts } from '@oselya/db';
import { createCursorCodec, createPageQuery, paginate, type Server } from '@oselya/kit';
import { type Kysely, sql, type Transaction } from 'kysely';
import { Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { roleSchema } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import type { IdentityMetrics } from '../identity/metrics.ts';
import { endUserSessions, setCachedRole } from '../identity/revocation.ts';
import { exampleUser, userProperties } from '../identity/routes.ts';
import { queueTokenRevocation, type TokenRevocation } from '../identity/token-revocation.ts';
import { readPermissions, readRole } from '../identity/users.ts';
import { nullable, okResponse, storableText, timestamp, userIdSchema } from '../schema.ts';
import { createListHandler } from '../conversations/routes.ts';
import type { SessionService } from '../conversations/sessions.ts';
import { sessionsResponse, sessionsQuery } from '../conversations/schemas.ts';
import type { Tables } from '../tables.ts';
import { recordAudit } from './audit.ts';

const PAGE_LIMITS = { limit: 100, maxLimit: 500 };

const userCursorCodec = createCursorCodec(userIdSchema);

const userSchema = Type.Object({
  ...userProperties,
  created_at: nullable(
    timestamp('The time of the first sign-in; null if an older system did not record it.'),
  ),
  updated_at: nullable(timestamp()),
});

const userExample = {
  ...exampleUser,
  created_at: '2026-03-02T08:15:00.000Z',
  updated_at: '2026-03-04T17:42:00.000Z',
};

const userParams = Type.Object({ user_id: userIdSchema });

type AdminDeps = {
  db: Kysely<Tables>;
  metrics: IdentityMetrics;
  tokenRevocation: Pick<TokenRevocation, 'wake'>;
  sessions: Pick<SessionService, 'listSessions'>;
};

/**
 * Registers `/admin/users` and `/admin/sessions`. Specification 000, Admin endpoints; Contract 3, Further endpoints.
 */
export function registerAdminRoutes(app: Server, deps: AdminDeps): void {
  const access = { role: 'admin' } as const;
  const tags = ['admin'];

  app.get(
    '/admin/sessions',
    {
      config: { access, errors: [] },
      schema: {
        tags: ['admin', 'sessions'],
        summary: 'Lists the sessions of all users, and those without an owner',
        querystring: sessionsQuery,
        response: { 200: sessionsResponse },
      },
    },
    createListHandler(deps.sessions),
  );

  app.get(
    '/admin/users',
    {
      config: { access, errors: [] },
      schema: {
        tags,
        summary: 'Lists the users who have signed in',
        querystring: Type.Object({
          q: Type.Optional(
            storableText({
              minLength: 1,
              maxLength: 320,
              description: 'Part of the email or the display name, in any case.',
            }),
          ),
          ...createPageQuery(PAGE_LIMITS),
        }),
        response: {
          200: Type.Array(userSchema, {
            description: 'Users, ordered by ID.',
            examples: [[userExample]],
          }),
        },
      },
    },
    async (request, reply) => {
      const { q, limit = PAGE_LIMITS.limit, cursor } = request.query;
      const afterId = userCursorCodec.read(cursor);
      await recordAudit(deps.db, {
        action: 'others_data_read',
        actorId: getSignedInUser(request).id,
        userId: null,
        details: { data: 'users' },
      });
      let query = deps.db
        .selectFrom('svc_users')
        .select(['id', 'email', 'display_name', 'role', 'permissions'])
        // These columns may be null in tables from an older system.
        .select(sql<Date | null>`created_at`.as('created_at'))
        .select(sql<Date | null>`updated_at`.as('updated_at'))
        .orderBy('id')
        .limit(limit + 1);
      if (afterId !== undefined) query = query.where('id', '>', afterId);
      if (q !== undefined) {
        query = query.where(
          sql<boolean>`(position(lower(${q}) in lower(email)) > 0
            or position(lower(${q}) in lower(display_name)) > 0)`,
        );
      }
      const rows = await query.execute();
      const encodeCursor = ({ id }: { id: string }) => userCursorCodec.write(id);
      return paginate(rows, { limit, getCursor: encodeCursor, request, reply }).map((row) => ({
        ...row,
        display_name: row.display_name ?? '',
        role: readRole(row.role),
        permissions: readPermissions(row.permissions),
        created_at: row.created_at?.toISOString() ?? null,
        updated_at: row.updated_at?.toISOString() ?? null,
      }));
    },
  );

  app.patch(
    '/admin/users/:user_id/role',
    {
      config: { access, errors: ['user_not_found'] },
      schema: {
        tags,
        summary: 'Changes the cached role of a user',
        description:
          'The role holds until the next request of the user, which fetches the role from the identity provider. To change a role permanently, change it there.',
        params: userParams,
        body: Type.Object(
          { role: roleSchema },
          { additionalProperties: false, examples: [{ role: 'admin' }] },
        ),
        response: { 200: okResponse },
      },
    },
    async (request) => {
      const { user_id: id } = request.params;
      const { role: newRole } = request.body;
      await deps.db.transaction().execute(async (trx) => {
        const oldRole = await setCachedRole(trx, id, newRole);
        if (oldRole === undefined) throw problem('user_not_found');
        const actorId = getSignedInUser(request).id;
        const details = { from: oldRole, to: newRole };
        await recordAudit(trx, { action: 'role_changed', actorId, userId: id, details });
      });
      return { ok: true as const };
    },
  );

  app.post(
    '/admin/users/:user_id/sign-out',
    {
      config: { access: { permission: 'svc.admin.access' }, errors: ['user_not_found'] },
      schema: {
        tags,
        summary: 'Ends all sign-ins of a user',
        description:
          'The sign-ins end immediately, on every process. Their tokens are revoked at the identity provider after the answer, a few at a time.',
        params: userParams,
        response: {
          200: Type.Object(
            { ok: Type.Literal(true), sessions_ended: Type.Integer({ minimum: 0 }) },
            {
              description: 'The sign-ins have ended.',
              examples: [{ ok: true, sessions_ended: 2 }],
            },
          ),
        },
      },
    },
    async (request) => {
      const { user_id: id } = request.params;
      const endSessions = async (trx: Transaction<Tables>) => {
        const users = await trx.selectFrom('svc_users').select('id').where('id', '=', id).execute();
        if (users.length === 0) throw problem('user_not_found');
        const sessions = await endUserSessions(trx, id);
        await queueTokenRevocation(trx, sessions);
        await recordAudit(trx, {
          action: 'sign_ins_ended',
          actorId: getSignedInUser(request).id,
          userId: id,
          details: { sessions: sessions.length },
        });
        return sessions.length;
      };
      // Auth sessions have no lock order, so the transaction may conflict with a webhook.
      const endedCount = await retryConflicts(() => deps.db.transaction().execute(endSessions));
      deps.metrics.countEnded('admin', endedCount);
      request.log.info(
        { user_id: id, sessions: endedCount },
        'an admin ended all sign-ins of a user',
      );
      deps.tokenRevocation.wake();
      return { ok: true as const, sessions_ended: endedCount };
    },
  );
}
