import { Readable } from 'node:stream';
import type { Kysely } from 'kysely';
import { findConversationSummary } from '../agent/index.ts';
import { listAudit } from '../admin/audit.ts';
import { listSteps } from '../planning/index.ts';
import { findFile, listFiles } from '../files/files.ts';
import { readOwnAccount } from '../identity/index.ts';
import { listFactsOf } from '../memory/facts.ts';
import { findSummary } from '../memory/memory.ts';
import { listMessages, listSessionsOf } from '../sessions/index.ts';
import { listHits, listSavedSearches } from '../saved-searches/saved-searches.ts';
import type { Tables } from '../tables.ts';
import { arrayText, base64Text, joinPieces, type JsonText, objectText } from './json-text.ts';

/** How many rows are read at once. */
const PAGE = 200;

/**
 * Everything that is stored of a user, as one JSON document that is made while it is read: however much there is,
 * a page of it and one file are in memory. No secret of a sign-in is in it.
 * @returns Its text. A failure in the midst is the stream's, which then ends without the end of the document.
 * @throws What the database throws before the first page is read.
 */
export async function exportOwnData(
  db: Kysely<Tables>,
  userId: string,
  now: Date,
): Promise<Readable> {
  const reach = { userId };
  const { user, signIns } = await readOwnAccount(db, userId);
  const summary = await findSummary(db, userId);
  const text = objectText({
    exported_at: now.toISOString(),
    user,
    sign_ins: signIns,
    memory: objectText({
      summary: summary ?? null,
      facts: list((after: string | undefined) =>
        placedBy('id', listFactsOf(db, { userId, after, limit: PAGE })),
      ),
    }),
    sessions: list(
      (after: string | undefined) =>
        placedBy('session_id', listSessionsOf(db, { userId, after, limit: PAGE })),
      async (session) => {
        const { session_id: sessionId } = session;
        const earlier = await findConversationSummary(db, { sessionId, reach });
        return { ...session, summary: earlier?.text ?? null, ...contents(db, sessionId, reach) };
      },
    ),
    saved_searches: list(
      (after: SearchPosition) => listSavedSearches(db, { userId, after, limit: PAGE }),
      (saved) => ({ ...saved, found: hitsOf(db, saved.id, { userId }) }),
    ),
    audit: list((after: number | undefined) =>
      placedBy('id', listAudit(db, { userId, beforeId: after }, PAGE - 1)),
    ),
  });
  // The only stream of all: the error of one within it, while nobody waits for its next row, would end the process.
  return Readable.from(joinPieces(text));
}

type SearchPosition = Parameters<typeof listSavedSearches>[1]['after'];
type MessagePosition = Parameters<typeof listMessages>[1]['before'];

function hitsOf(db: Kysely<Tables>, searchId: string, reach: { userId: string }): JsonText {
  return list((after: number | undefined) =>
    placedBy('listing_id', listHits(db, { searchId, reach, after, limit: PAGE })),
  );
}

/** What belongs to a session; the newest messages and steps first, as they are read. */
function contents(db: Kysely<Tables>, sessionId: string, reach: { userId: string }) {
  return {
    messages: list((before: MessagePosition) =>
      listMessages(db, { sessionId, reach, before, limit: PAGE }),
    ),
    steps: list((before: number | undefined) => listSteps(db, { sessionId, before, limit: PAGE })),
    files: list(
      (after: string | undefined) =>
        placedBy('name', listFiles(db, { sessionId, reach, after, limit: PAGE })),
      async ({ name, ...file }) => {
        const found = await findFile(db, { sessionId, name, reach });
        return { name, ...file, content_base64: found ? base64Text(found.content) : null };
      },
    ),
  };
}

/** Rows that have their position in one of their columns. */
async function placedBy<Key extends string, Row extends Readonly<Record<Key, unknown>>>(
  key: Key,
  rows: Promise<Row[]>,
): Promise<(Row & { position: Row[Key] })[]> {
  return (await rows).map((row) => ({ ...row, position: row[key] }));
}

/**
 * All rows of a list that is read in pages, each without its position. Nothing is read before its turn to be written
 * has come.
 * @param read Gives the page after a position, in an order that stays as it is whatever is written meanwhile: minutes
 *   may lie between two pages.
 */
function list<Row extends { position: Position }, Position>(
  read: (after: Position | undefined) => Promise<Row[]>,
  present: (row: Omit<Row, 'position'>) => object | Promise<object> = (row) => row,
): JsonText {
  async function* rows(): AsyncGenerator<object> {
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
  return arrayText(rows());
}
