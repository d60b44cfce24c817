import { retryConflicts } from '@oselya/db';
import type { Server } from '@oselya/kit';
import type { Kysely, Transaction } from 'kysely';
import { Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { recordAudit } from '../admin/audit.ts';
import { deleteBoards } from '../boards/boards.ts';
import { problem } from '../errors.ts';
import { limitPerUser, limitTransfers } from '../limits.ts';
import { deleteMarks } from '../marks/marks.ts';
import { deleteMemory, lockMemory } from '../memory/facts.ts';
import { deleteSavedSearches } from '../saved-searches/saved-searches.ts';
import { nullable, timestamp } from '../schema.ts';
import { deleteSettings } from '../settings/settings.ts';
import { deleteSessionsOfUser } from '../conversations/session-rows.ts';
import type { Tables } from '../tables.ts';
import { exportOwnData } from './export.ts';

/** Maximum number of concurrent exports in one process. Each holds a file of up to 10 MiB in memory. */
const MAX_EXPORTS = 4;

const tags = ['memory', 'sessions'];

const rowSchema = Type.Object({}, { additionalProperties: true });

const exportSchema = Type.Object(
  {
    exported_at: timestamp(),
    user: rowSchema,
    sign_ins: Type.Array(rowSchema),
    settings: rowSchema,
    memory: Type.Object({ summary: nullable(rowSchema), facts: Type.Array(rowSchema) }),
    sessions: Type.Array(rowSchema, {
      description: 'Sessions with their messages, steps and files.',
    }),
    saved_searches: Type.Array(rowSchema, {
      description: 'Saved searches with the listings that they found.',
    }),
    marks: Type.Array(rowSchema),
    boards: Type.Array(rowSchema, {
      description: 'Boards of the user, and those shared with the user, with their verdicts.',
    }),
    board_comments: Type.Array(rowSchema),
    audit: Type.Array(rowSchema),
  },
  {
    examples: [
      {
        exported_at: '2026-03-04T17:42:10.000Z',
        user: { id: 'u-1', email: 'olena@example.test' },
        sign_ins: [],
        settings: { language: 'uk', theme: 'auto', single_letter_keys: true, currency: null },
        memory: { summary: null, facts: [] },
        sessions: [],
        saved_searches: [],
        marks: [],
        boards: [],
        board_comments: [],
        audit: [],
      },
    ],
  },
);

/** Registers `GET /me/export` and `DELETE /me/data`. */
export function registerOwnDataRoutes(
  app: Server,
  db: Kysely<Tables>,
  { maxExports = MAX_EXPORTS } = {},
): void {
  app.get(
    '/me/export',
    {
      config: { access: 'signed-in', errors: ['export_running', 'unavailable'] },
      // A HEAD request would read the whole export and discard it.
      exposeHeadRoute: false,
      onRequest: [
        limitPerUser(1, () => problem('export_running')),
        limitTransfers(maxExports, 'exports'),
      ],
      schema: {
        tags,
        summary: 'Exports all data of the user',
        description:
          'A JSON document with the account, its sign-ins without their secrets, settings, memory, sessions with messages, summaries, steps and files, saved searches with the listings that they found, marks, boards, comments, and the lines of the audit trail about the user.',
        response: {
          200: {
            description: 'The document, as an attachment.',
            // `Type.Unsafe`, because the document is a stream, which the serializer does not check.
            content: { 'application/json': { schema: Type.Unsafe<object>(exportSchema) } },
          },
        },
      },
    },
    async (request, reply) => {
      const { id: userId } = getSignedInUser(request);
      await recordAudit(db, { action: 'own_data_exported', actorId: userId, userId });
      const now = new Date();
      const document = await exportOwnData(db, userId, now);
      const name = `oselya-${now.toISOString().slice(0, 10)}.json`;
      return reply
        .header('content-disposition', `attachment; filename="${name}"`)
        .type('application/json; charset=utf-8')
        .send(document);
    },
  );

  app.delete(
    '/me/data',
    {
      config: { access: 'signed-in', errors: ['unavailable'] },
      schema: {
        tags,
        summary:
          'Deletes the conversations, files, memory, saved searches, marks, boards and settings of the user',
        description:
          'Deletes sessions with messages, summaries, steps and files, saved searches, facts, summary, settings, marks, boards of the user for all members, memberships with verdicts, and comments. The account and its sign-ins stay. The deletion cannot be undone: export the data first.',
        response: {
          200: Type.Object(
            {
              ok: Type.Literal(true),
              deleted: Type.Object({
                sessions: Type.Integer(),
                saved_searches: Type.Integer(),
                facts: Type.Integer(),
                summaries: Type.Integer(),
                settings: Type.Integer(),
                marks: Type.Integer(),
                boards: Type.Integer({ description: 'Deleted and left boards.' }),
                board_comments: Type.Integer(),
              }),
            },
            {
              description: 'The data is deleted.',
              examples: [
                {
                  ok: true,
                  deleted: {
                    sessions: 12,
                    saved_searches: 2,
                    facts: 7,
                    summaries: 1,
                    settings: 1,
                    marks: 31,
                    boards: 1,
                    board_comments: 0,
                  },
                },
              ],
            },
          ),
        },
      },
    },
    async (request) => {
      const deletedCounts = await deleteOwnData(db, getSignedInUser(request).id);
      return { ok: true as const, deleted: deletedCounts };
    },
  );
}

/** Deletes the sessions, saved searches, memory, settings, marks and boards of a user, which aborts answers in progress. */
function deleteOwnData(db: Kysely<Tables>, userId: string) {
  const deleteAll = async (trx: Transaction<Tables>) => {
    await lockMemory(trx, userId);
    const sessions = await deleteSessionsOfUser(trx, userId);
    const savedSearches = await deleteSavedSearches(trx, userId);
    const details = {
      sessions,
      saved_searches: savedSearches,
      ...(await deleteMemory(trx, userId)),
      settings: await deleteSettings(trx, userId),
      marks: await deleteMarks(trx, userId),
      ...(await deleteBoards(trx, userId)),
    };
    // Empty deletions are not recorded, because repeated requests could flood the trail.
    if (Object.values(details).some((count) => count > 0)) {
      await recordAudit(trx, { action: 'own_data_deleted', actorId: userId, userId, details });
    }
    return details;
  };
  // Rows that refer to sessions and searches are locked in no fixed order, so two deletions can deadlock.
  return retryConflicts(() => db.transaction().execute(deleteAll));
}
