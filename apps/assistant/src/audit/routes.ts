import { cursors, pageQuery, type Server, toPage } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { Type } from 'typebox';
import { guardRefusals } from '../access/guards.ts';
import { problem, problemAnswers } from '../errors.ts';
import { nullable, timestamp, userId } from '../schema.ts';
import type { Tables } from '../tables.ts';
import { auditActions } from './actions.ts';
import { listAudit } from './repository.ts';

const PAGE = { limit: 100, maxLimit: 500 };

const lineId = cursors(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }));

const cursorOf = ({ id }: { id: number }) => lineId.write(id);

const auditAction = Type.Union(auditActions.map((action) => Type.Literal(action)));

const querystring = Type.Object({
  action: Type.Optional(auditAction),
  actor_id: Type.Optional(userId),
  user_id: Type.Optional(userId),
  since: Type.Optional(timestamp('Lines from then on.')),
  until: Type.Optional(timestamp('Lines before then.')),
  ...pageQuery(PAGE),
});

const auditLine = Type.Object({
  id: Type.Integer(),
  created_at: timestamp(),
  action: Type.String({ description: 'What was done; further ones may be added.' }),
  actor_id: nullable(
    Type.String({
      description:
        "Who did it; null for the provider, the operator's command and who is not known.",
    }),
  ),
  user_id: nullable(
    Type.String({
      description: "Whose data or sign-in it was; null where it was everybody's, or not known.",
    }),
  ),
  details: Type.Object({}, { additionalProperties: true }),
});

const auditList = Type.Array(auditLine, {
  description: 'The trail, newest first.',
  examples: [
    [
      {
        id: 1042,
        created_at: '2026-03-04T17:42:10.000Z',
        action: 'role_changed',
        actor_id: 'u-7',
        user_id: 'u-1',
        details: { from: 'user', to: 'admin' },
      },
    ],
  ],
});

/** `GET /admin/audit`. Contract 3, Further endpoints. */
export function auditRoutes(app: Server, db: Kysely<Tables>): void {
  app.get(
    '/admin/audit',
    {
      config: { access: { permission: 'svc.admin.access' } },
      schema: {
        tags: ['admin'],
        summary: 'The audit trail',
        querystring,
        response: {
          200: auditList,
          ...problemAnswers(...guardRefusals, 'permission_missing', 422),
        },
      },
    },
    async (request, reply) => {
      const { action, actor_id, user_id, since, until, cursor } = request.query;
      const { limit = PAGE.limit } = request.query;
      const asked = {
        action,
        actorId: actor_id,
        userId: user_id,
        since: toSeconds('since', since),
        until: toSeconds('until', until),
        beforeId: lineId.read(cursor),
      };
      const rows = await listAudit(db, asked, limit);
      return toPage(rows, { limit, cursorOf, request, reply }).map((row) => ({
        ...row,
        created_at: row.created_at.toISOString(),
      }));
    },
  );
}

/** RFC 3339 knows leap seconds and offsets of a day; JavaScript knows neither, PostgreSQL not all. */
function toSeconds(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const seconds = Date.parse(text) / 1000;
  if (Number.isNaN(seconds)) {
    const message = 'must be a time that exists, such as 2026-03-04T17:42:10Z';
    throw problem('validation_failed', { errors: [{ path: `querystring/${name}`, message }] });
  }
  return seconds;
}
