import { Readable } from 'node:stream';
import { JsonStreamStringify } from 'json-stream-stringify';
import type { Kysely } from 'kysely';
import { findConversationSummary } from '../agent/index.ts';
import { listAudit } from '../audit/index.ts';
import { listSteps } from '../planning/index.ts';
import { findFile, listFiles } from '../files/index.ts';
import { readOwnAccount } from '../identity/index.ts';
import { findSummary, listFacts } from '../memory/index.ts';
import { listMessages, listSessions } from '../sessions/index.ts';
import { listHits, listSavedSearches } from '../saved-searches/index.ts';
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
  const { user, signIns } = await readOwnAccount(db, userId);
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
      async (session) => {
        const { session_id: sessionId } = session;
        const summary = await findConversationSummary(db, { sessionId, reach });
        return { ...session, summary: summary?.text ?? null, ...contents(db, sessionId, reach) };
      },
    ),
    saved_searches: rows(
      (after: SearchPosition) => listSavedSearches(db, { userId, after, limit: PAGE }),
      (saved) => ({ ...saved, found: hitsOf(db, saved.id, { userId }) }),
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
type SearchPosition = Parameters<typeof listSavedSearches>[1]['after'];
type MessagePosition = Parameters<typeof listMessages>[1]['before'];

function hitsOf(db: Kysely<Tables>, searchId: string, reach: { userId: string }): Readable {
  return rows((after: number | undefined) =>
    listHits(db, { searchId, reach, after, limit: PAGE }).then((hits) =>
      hits.map((hit) => ({ ...hit, position: hit.listing_id })),
    ),
  );
}

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
