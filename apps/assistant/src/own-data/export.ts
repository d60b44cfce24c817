import { Readable } from 'node:stream';
import type { Kysely } from 'kysely';
import { listAudit } from '../admin/audit.ts';
import {
  type Board,
  type BoardItem,
  listBoards,
  listCommentsOfUser,
  listItems,
} from '../boards/boards.ts';
import { findConversationSummary } from '../conversations/agent/summaries.ts';
import { listMessages } from '../conversations/messages.ts';
import { listSessionsOfUser } from '../conversations/session-rows.ts';
import { listSteps } from '../conversations/steps.ts';
import { findFile, listFiles } from '../files/files.ts';
import { listFactsOfUser } from '../memory/facts.ts';
import { listMarks } from '../marks/marks.ts';
import { findSummary } from '../memory/memory.ts';
import type { Position } from '../pages.ts';
import { listHits, listSavedSearches } from '../saved-searches/saved-searches.ts';
import { findSettings } from '../settings/settings.ts';
import type { Tables } from '../tables.ts';

const PAGE_ROWS = 200;

const MIN_CHUNK_LENGTH = 64 * 1024;

/** Size of a slice of a file: a multiple of three, so that its base64 has no padding. */
const SLICE_BYTES = (MIN_CHUNK_LENGTH / 4) * 3;

/** Text of one JSON value, generated in parts while its data is read. */
type JsonText = AsyncGenerator<string, void, undefined>;

/**
 * Exports all data of a user as one JSON document without the secrets of auth sessions. At most a page of each list and
 * one file are in memory. An error while the lists are read destroys the stream.
 */
export async function exportOwnData(
  db: Kysely<Tables>,
  userId: string,
  now: Date,
): Promise<Readable> {
  const scope = { userId };
  const limit = PAGE_ROWS;
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
  const text = generateObject({
    exported_at: now.toISOString(),
    user,
    sign_ins: signIns,
    settings: await findSettings(db, userId),
    memory: generateObject({
      summary: summary ?? null,
      facts: generateList('id', (after?: string) => listFactsOfUser(db, { userId, after, limit })),
    }),
    sessions: generateList(
      'session_id',
      (after?: string) => listSessionsOfUser(db, { userId, after, limit }),
      async (session) => {
        const { session_id: sessionId } = session;
        const conversationSummary = await findConversationSummary(db, { sessionId, scope });
        return {
          ...session,
          summary: conversationSummary?.text ?? null,
          ...generateContents(db, sessionId, scope),
        };
      },
    ),
    saved_searches: generateList(
      'position',
      (after?: Position) => listSavedSearches(db, { userId, after, limit }),
      ({ position: _position, ...savedSearch }) => ({
        ...savedSearch,
        found: generateList('listing_id', (after?: number) =>
          listHits(db, { searchId: savedSearch.id, scope, after, limit }),
        ),
      }),
    ),
    marks: generateList('listing_id', (before?: number) =>
      listMarks(db, { userId, before, limit }),
    ),
    boards: generateList(
      'position',
      (after?: Position) => listBoards(db, { userId, after, limit }),
      async ({ position: _position, ...board }) => {
        const items = await listItems(db, board.id);
        return { ...board, items: items.map((item) => presentItem(item, board.role, userId)) };
      },
    ),
    board_comments: generateList('id', (after?: string) =>
      listCommentsOfUser(db, { userId, after, limit }),
    ),
    audit: generateList('id', (beforeId?: number) => listAudit(db, { userId, beforeId }, limit)),
  });
  return Readable.from(joinChunks(text));
}

/** Returns an item with the verdict of the user. Only the export of the owner has the status and the note. */
function presentItem(
  { listing_id, status, note, added_at, verdicts }: BoardItem,
  role: Board['role'],
  userId: string,
) {
  const verdict = verdicts.find(({ user_id }) => user_id === userId)?.verdict ?? null;
  return { listing_id, verdict, ...(role === 'owner' && { status, note, added_at }) };
}

function generateContents(db: Kysely<Tables>, sessionId: string, scope: { userId: string }) {
  type MessageCursor = Parameters<typeof listMessages>[1]['before'];
  const limit = PAGE_ROWS;
  return {
    messages: generateList(
      'position',
      (before?: MessageCursor) => listMessages(db, { sessionId, scope, before, limit }),
      ({ position: _position, ...message }) => message,
    ),
    steps: generateList(
      'position',
      (before?: number) => listSteps(db, { sessionId, before, limit }),
      ({ position: _position, ...step }) => step,
    ),
    files: generateList(
      'name',
      (after?: string) => listFiles(db, { sessionId, scope, after, limit }),
      async ({ name, ...fileInfo }) => {
        const file = await findFile(db, { sessionId, name, scope });
        return { name, ...fileInfo, content_base64: file ? generateBase64(file.content) : null };
      },
    ),
  };
}

/**
 * Generates the text of a list that is read page by page.
 * @param key Sort key: the next page starts after its value (keyset pagination).
 * @param readPage Reads the page after a row, in an order that writes do not change: minutes may pass between pages.
 */
async function* generateList<Key extends string, Row extends Readonly<Record<Key, unknown>>>(
  key: Key,
  readPage: (after?: Row[Key]) => Promise<Row[]>,
  presentRow: (row: Row) => object | Promise<object> = (row) => row,
): JsonText {
  let pageKey: Row[Key] | undefined;
  let separator = '[';
  for (;;) {
    const page = await readPage(pageKey);
    for (const row of page) {
      yield separator;
      yield* generateObject(await presentRow(row));
      separator = ',';
    }
    pageKey = page.at(-1)?.[key];
    if (page.length < PAGE_ROWS) break;
  }
  yield separator === '[' ? '[]' : ']';
}

/** Generates the text of an object. Streams members that are generators. */
async function* generateObject(members: object): JsonText {
  let text = '{';
  let separator = '';
  for (const [name, value] of Object.entries(members)) {
    if (value === undefined) continue;
    text += `${separator}${JSON.stringify(name)}:`;
    separator = ',';
    if (isJsonText(value)) {
      yield text;
      yield* value;
      text = '';
    } else {
      text += JSON.stringify(value);
    }
  }
  yield `${text}}`;
}

/** Generates the base64 text of bytes in slices (RFC 4648 §4). */
async function* generateBase64(bytes: Buffer): JsonText {
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
    if (chunk.length < MIN_CHUNK_LENGTH) continue;
    yield chunk;
    chunk = '';
  }
  yield chunk;
}

function isJsonText(value: unknown): value is JsonText {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}
