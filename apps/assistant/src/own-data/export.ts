import { Readable } from 'node:stream';
import { JsonStreamStringify } from 'json-stream-stringify';
import type { Kysely } from 'kysely';
import { listAudit } from '../audit/repository.ts';
import { listSteps } from '../chat/steps.sql.ts';
import { findFile, listFiles } from '../files/repository.ts';
import { listFacts } from '../memory/repository.ts';
import { findSummary } from '../memory/summary-repository.ts';
import { listMessages } from '../sessions/messages.ts';
import { listSessions } from '../sessions/repository.ts';
import type { Tables } from '../tables.ts';

/** How many rows are read at once. */
const PAGE = 200;

/**
 * Everything that is stored of a user, as one JSON document that is made while it is read: however much there is,
 * a page of it and one file are in memory. No secret of a sign-in is in it.
 */
export async function exportOwnData(
  db: Kysely<Tables>,
  userId: string,
  now: Date,
): Promise<Readable> {
  const reach = { userId };
  const user = await db
    .selectFrom('svc_users')
    .select(['id', 'email', 'display_name', 'role', 'permissions', 'created_at', 'updated_at'])
    .where('id', '=', userId)
    .executeTakeFirst();
  const signIns = await db
    .selectFrom('user_auth_sessions')
    .select(['created_at', 'last_used_at', 'user_agent', 'address'])
    .where('user_id', '=', userId)
    .orderBy('created_at')
    .execute();
  return new JsonStreamStringify({
    exported_at: now.toISOString(),
    user,
    sign_ins: signIns,
    memory: {
      summary: (await findSummary(db, userId)) ?? null,
      facts: rows((after: FactPosition) => listFacts(db, reach, { limit: PAGE, after })),
    },
    sessions: rows(
      (after: SessionPosition) => listSessions(db, { reach, limit: PAGE, after }),
      (session) => ({ ...session, ...contents(db, session.session_id, reach) }),
    ),
    audit: rows((after: number | undefined) =>
      listAudit(db, { userId, beforeId: after }, PAGE - 1).then((lines) =>
        lines.map((line) => ({ ...line, position: line.id })),
      ),
    ),
  });
}

type FactPosition = NonNullable<Parameters<typeof listFacts>[2]['after']> | undefined;
type SessionPosition = NonNullable<Parameters<typeof listSessions>[1]['after']> | undefined;
type MessagePosition = Parameters<typeof listMessages>[1]['before'];

/** What belongs to a session; the newest messages and steps first, as they are read. */
function contents(db: Kysely<Tables>, sessionId: string, reach: { userId: string }) {
  return {
    messages: rows((before: MessagePosition) =>
      listMessages(db, { sessionId, reach, before, limit: PAGE }),
    ),
    steps: rows((before: number | undefined) => listSteps(db, { sessionId, before, limit: PAGE })),
    files: rows(
      (after: string | undefined) =>
        listFiles(db, { sessionId, reach, after, limit: PAGE }).then((files) =>
          files.map((file) => ({ ...file, position: file.name })),
        ),
      async ({ name, ...file }) => {
        const found = await findFile(db, { sessionId, name, reach });
        return { name, ...file, content_base64: found?.content.toString('base64') ?? null };
      },
    ),
  };
}

/** All rows of a list that is read in pages, each without its position. */
function rows<Row extends { position: Position }, Position>(
  read: (after: Position | undefined) => Promise<Row[]>,
  present: (row: Omit<Row, 'position'>) => object | Promise<object> = (row) => row,
): Readable {
  async function* all(): AsyncGenerator<object> {
    let after: Position | undefined;
    for (;;) {
      const page = await read(after);
      for (const { position, ...row } of page) {
        after = position;
        yield await present(row);
      }
      if (page.length < PAGE) return;
    }
  }
  // Nothing is read before its turn has come.
  return Readable.from(all());
}
