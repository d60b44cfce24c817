import { Readable } from 'node:stream';
import type { Kysely } from 'kysely';
import { listAudit } from '../admin/audit.ts';
import { findConversationSummary } from '../conversations/agent/summaries.ts';
import { listSteps } from '../conversations/steps.ts';
import { findFile, listFiles } from '../files/files.ts';
import { listFactsOf } from '../memory/facts.ts';
import { findSummary } from '../memory/memory.ts';
import type { Position } from '../pages.ts';
import { listMessages } from '../conversations/messages.ts';
import { listSessionsOfUser } from '../conversations/session-rows.ts';
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
      facts: listText('id', (after?: string) => listFactsOf(db, { userId, after, limit: PAGE })),
    }),
    sessions: listText(
      'session_id',
      (after?: string) => listSessionsOfUser(db, { userId, after, limit: PAGE }),
      async (session) => {
        const { session_id: sessionId } = session;
        const earlier = await findConversationSummary(db, { sessionId, scope });
        return { ...session, summary: earlier?.text ?? null, ...contents(db, sessionId, scope) };
      },
    ),
    saved_searches: listText(
      'position',
      (after?: Position) => listSavedSearches(db, { userId, after, limit: PAGE }),
      ({ position: _position, ...saved }) => ({
        ...saved,
        found: listText('listing_id', (listing?: number) =>
          listHits(db, { searchId: saved.id, scope, after: listing, limit: PAGE }),
        ),
      }),
    ),
    audit: listText('id', (beforeId?: number) => listAudit(db, { userId, beforeId }, PAGE - 1)),
  });
  return Readable.from(joinChunks(text));
}

function contents(db: Kysely<Tables>, sessionId: string, scope: { userId: string }) {
  type Before = Parameters<typeof listMessages>[1]['before'];
  return {
    messages: listText(
      'position',
      (before?: Before) => listMessages(db, { sessionId, scope, before, limit: PAGE }),
      ({ position: _position, ...message }) => message,
    ),
    steps: listText(
      'position',
      (before?: number) => listSteps(db, { sessionId, before, limit: PAGE }),
      ({ position: _position, ...step }) => step,
    ),
    files: listText(
      'name',
      (after?: string) => listFiles(db, { sessionId, scope, after, limit: PAGE }),
      async ({ name, ...file }) => {
        const found = await findFile(db, { sessionId, name, scope });
        return { name, ...file, content_base64: found ? base64Text(found.content) : null };
      },
    ),
  };
}

/**
 * Generates the text of a list that is read page by page.
 * @param key The column of a row that the next page starts after.
 * @param read Reads the page after a row, in an order that writes do not change: minutes may pass between pages.
 */
async function* listText<Key extends string, Row extends Readonly<Record<Key, unknown>>>(
  key: Key,
  read: (after?: Row[Key]) => Promise<Row[]>,
  present: (row: Row) => object | Promise<object> = (row) => row,
): JsonText {
  let after: Row[Key] | undefined;
  let separator = '[';
  for (;;) {
    const page = await read(after);
    for (const row of page) {
      yield separator;
      yield* objectText(await present(row));
      separator = ',';
    }
    after = page.at(-1)?.[key];
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
