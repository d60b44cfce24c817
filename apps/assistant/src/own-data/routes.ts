import type { Server } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { Type } from 'typebox';
import { guardRefusals, signedIn } from '../access/guards.ts';
import { limitPerUser, limitTransfers } from '../limits.ts';
import { recordAudit } from '../admin/audit.ts';
import { problem, problemAnswers } from '../errors.ts';
import { nullable, timestamp } from '../schema.ts';
import type { Tables } from '../tables.ts';
import { deleteOwnData } from './delete.ts';
import { exportOwnData } from './export.ts';

/** How many exports may be on their way at once in one process: each holds a file of up to 10 MiB. */
const MAX_EXPORTS = 4;

const tags = ['memory', 'sessions'];
const config = { access: 'signed-in' } as const;

const deletedAnswer = Type.Object(
  {
    ok: Type.Literal(true),
    deleted: Type.Object({
      sessions: Type.Integer(),
      saved_searches: Type.Integer(),
      facts: Type.Integer(),
      summaries: Type.Integer(),
    }),
  },
  {
    description: 'It is gone.',
    examples: [{ ok: true, deleted: { sessions: 12, saved_searches: 2, facts: 7, summaries: 1 } }],
  },
);

const anything = Type.Object({}, { additionalProperties: true });

/** It is written while it is read, so that nothing holds it against this. */
const exportedAnswer = Type.Unsafe<object>(
  Type.Object(
    {
      exported_at: timestamp(),
      user: anything,
      sign_ins: Type.Array(anything),
      memory: Type.Object({ summary: nullable(anything), facts: Type.Array(anything) }),
      sessions: Type.Array(anything, { description: 'With their messages, steps and files.' }),
      saved_searches: Type.Array(anything, { description: 'With what they found.' }),
      audit: Type.Array(anything),
    },
    {
      examples: [
        {
          exported_at: '2026-03-04T17:42:10.000Z',
          user: { id: 'u-1', email: 'olena@example.test' },
          sign_ins: [],
          memory: { summary: null, facts: [] },
          sessions: [],
          saved_searches: [],
          audit: [],
        },
      ],
    },
  ),
);

/** `GET /me/export` and `DELETE /me/data`: everybody's own data, to take along and to have deleted. */
export function ownDataRoutes(
  app: Server,
  db: Kysely<Tables>,
  { maxExports = MAX_EXPORTS } = {},
): void {
  app.get(
    '/me/export',
    {
      config,
      // It would be read to its end for nobody, after its place had been given back.
      exposeHeadRoute: false,
      onRequest: [
        limitPerUser(1, () => problem('export_running')),
        limitTransfers(maxExports, 'exports'),
      ],
      schema: {
        tags,
        summary: 'Everything that is stored of the user',
        description:
          'A JSON document with the account, its sign-ins without their secrets, memory, sessions with messages, summaries, steps and files, saved searches with what they found, and the lines of the audit trail about the user.',
        response: {
          200: {
            description: 'The document, as an attachment.',
            content: { 'application/json': { schema: exportedAnswer } },
          },
          ...problemAnswers(...guardRefusals, 'export_running', 'unavailable'),
        },
      },
    },
    async (request, reply) => {
      const { id: userId } = signedIn(request);
      await recordAudit(db, { action: 'own_data_exported', actorId: userId, userId });
      const now = new Date();
      const document = await exportOwnData(db, userId, now);
      return reply
        .header(
          'content-disposition',
          `attachment; filename="oselya-${now.toISOString().slice(0, 10)}.json"`,
        )
        .type('application/json; charset=utf-8')
        .send(document);
    },
  );

  app.delete(
    '/me/data',
    {
      config,
      schema: {
        tags,
        summary: 'Deletes what the user has said, stored and had remembered',
        description:
          'Sessions with messages, summaries, steps and files, saved searches, facts and summary. The account and its sign-ins stay. It cannot be undone: export it first.',
        response: {
          200: deletedAnswer,
          ...problemAnswers(...guardRefusals, 'cross_site_request', 'unavailable'),
        },
      },
    },
    async (request) => ({
      ok: true as const,
      deleted: await deleteOwnData(db, signedIn(request).id),
    }),
  );
}
