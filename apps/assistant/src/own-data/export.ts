import { Readable } from 'node:stream';
import type { Kysely } from 'kysely';
import { listAudit } from '../admin/audit.ts';
import { findConversationSummary } from '../conversations/agent/summaries.ts';
import { listSteps } from '../conversations/steps.ts';
import { findFile, listFiles } from '../files/files.ts';
import { listFactsOf } from '../memory/facts.ts';
import { findSummary } from '../memory/memory.ts';
import { listMessages } from '../conversations/messages.ts';
import { listSessionsOf } from '../conversations/session-rows.ts';
import { listHits, listSavedSearches } from '../saved-searches/saved-searches.ts';
import type { Tables } from '../tables.ts';

const PAGE = 200;

/** Minimum length of a chunk, except the last. */
const CHUNK_LENGTH = 64 * 1024;

/** Bytes of a file that are encoded at once; a multiple of three needs no padding. */
const SLICE_BYTES = (CHUNK_LENGTH / 4) * 3;

/** The text of one JSON value, generated in pieces while it is read. */
type JsonText = AsyncGenerator<string, void, undefined>;

/**
 * Exports all data of a user as one JSON document, generated while it is read: a page of rows and one file are in
 * memory. It has no secret of a sign-in.
 * @returns The document; an error after the first page destroys the stream.
 * @throws DatabaseError before the first page.
 */
export async function exportOwnData(
  db: Kysely<Tables>,
  userId: string,
  now: Date,
): Promise<Readable> {
  const scope = { userId };
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
  const summary = await findSummary(db, userId);
  const text = objectText({
    exported_at: now.toISOString(),
    user,
    sign_ins: signIns,
    memory: objectText({
      summary: summary ?? null,
      facts: listText((after: string | undefined) =>
        withPosition('id', listFactsOf(db, { userId, after, limit: PAGE })),
      ),
    }),
    sessions: listText(
      (after: string | undefined) =>
        withPosition('session_id', listSessionsOf(db, { userId, after, limit: PAGE })),
      async (session) => {
        const { session_id: sessionId } = session;
        const earlier = await findConversationSummary(db, { sessionId, scope });
        return { ...session, summary: earlier?.text ?? null, ...contents(db, sessionId, scope) };
      },
    ),
    saved_searches: listText(
      (after: SearchPosition) => listSavedSearches(db, { userId, after, limit: PAGE }),
      (saved) => ({ ...saved, found: hitsOf(db, saved.id, scope) }),
    ),
    audit: listText((after: number | undefined) =>
      withPosition('id', listAudit(db, { userId, beforeId: after }, PAGE - 1)),
    ),
  });
  return Readable.from(joinChunks(text));
}

type SearchPosition = Parameters<typeof listSavedSearches>[1]['after'];
type MessagePosition = Parameters<typeof listMessages>[1]['before'];

function hitsOf(db: Kysely<Tables>, searchId: string, scope: { userId: string }): JsonText {
  return listText((after: number | undefined) =>
    withPosition('listing_id', listHits(db, { searchId, scope, after, limit: PAGE })),
  );
}

function contents(db: Kysely<Tables>, sessionId: string, scope: { userId: string }) {
  return {
    messages: listText((before: MessagePosition) =>
      listMessages(db, { sessionId, scope, before, limit: PAGE }),
    ),
    steps: listText((before: number | undefined) =>
      listSteps(db, { sessionId, before, limit: PAGE }),
    ),
    files: listText(
      (after: string | undefined) =>
        withPosition('name', listFiles(db, { sessionId, scope, after, limit: PAGE })),
      async ({ name, ...file }) => {
        const found = await findFile(db, { sessionId, name, scope });
        return { name, ...file, content_base64: found ? base64Text(found.content) : null };
      },
    ),
  };
}

/** Adds the position of rows that have it in one of their columns. */
async function withPosition<Key extends string, Row extends Readonly<Record<Key, unknown>>>(
  key: Key,
  rows: Promise<Row[]>,
): Promise<(Row & { position: Row[Key] })[]> {
  return (await rows).map((row) => ({ ...row, position: row[key] }));
}

/**
 * Generates the text of a list that is read page by page, each row without its position.
 * @param read Reads the page after a position, in an order that writes do not change: minutes may pass between pages.
 */
async function* listText<Row extends { position: Position }, Position>(
  read: (after: Position | undefined) => Promise<Row[]>,
  present: (row: Omit<Row, 'position'>) => object | Promise<object> = (row) => row,
): JsonText {
  let after: Position | undefined;
  let separator = '[';
  for (;;) {
    const page = await read(after);
    for (const { position, ...row } of page) {
      after = position;
      yield separator;
      yield* objectText(await present(row));
      separator = ',';
    }
    if (page.length < PAGE) break;
  }
  yield separator === '[' ? '[]' : ']';
}

/** Generates the text of an object; a member that is itself a generator is streamed. */
async function* objectText(members: object): JsonText {
  let text = '{';
  let separator = '';
  for (const [name, value] of Object.entries(members)) {
    if (value === undefined) continue;
    text += `${separator}${JSON.stringify(name)}:`;
    separator = ',';
    if (isText(value)) {
      yield text;
      yield* value;
      text = '';
    } else {
      text += JSON.stringify(value);
    }
  }
  yield `${text}}`;
}

/** Generates the base64 text of bytes in slices. RFC 4648 §4. */
async function* base64Text(bytes: Buffer): JsonText {
  yield '"';
  for (let start = 0; start < bytes.length; start += SLICE_BYTES) {
    yield bytes.toString('base64', start, start + SLICE_BYTES);
  }
  yield '"';
}

async function* joinChunks(text: JsonText): JsonText {
  let chunk = '';
  for await (const part of text) {
    chunk += part;
    if (chunk.length < CHUNK_LENGTH) continue;
    yield chunk;
    chunk = '';
  }
  yield chunk;
}

function isText(value: unknown): value is JsonText {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}
