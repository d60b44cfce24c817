import { createPageQuery, escapeHtml, paginate, type Server } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import { Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { problem } from '../errors.ts';
import { buildTimeOrder, type Position, positionCursors } from '../pages.ts';
import { nullable, storableText, timestamp } from '../schema.ts';
import type { Tables } from '../tables.ts';

const PAGE_LIMITS = { limit: 20, maxLimit: 100 };

/** Length of a passage and of the text before its first match, in UTF-16 code units. */
const PASSAGE_LENGTH = 240;
const LEAD_LENGTH = 80;

/** Maximum length of the searched text, as in the SQL function `text_words`. */
const MAX_SEARCHED_LENGTH = 100_000;

const hitSchema = Type.Object({
  session_id: Type.String(),
  session_name: Type.String(),
  message_id: nullable(
    Type.String({ description: 'The message; null if the name of the session matches.' }),
  ),
  role: nullable(Type.String()),
  created_at: nullable(timestamp()),
  highlight: Type.String({
    description: 'HTML of the passage: words in `<mark>`, everything else escaped.',
  }),
});

const hitExample = {
  session_id: '0d2b7a3e-5a5c-4a8e-9a55-3f1f2f6f7c10',
  session_name: 'Two rooms near the park',
  message_id: '6b0f2f0e-0f55-4c3c-8f0f-3d4b5f7f2a11',
  role: 'user',
  created_at: '2026-03-04T17:42:10.000Z',
  highlight: 'Двокімнатна квартира біля <mark>парку</mark>, до 15 000 грн',
};

/** Registers `GET /me/search`. Contract 6. */
export function registerConversationSearchRoute(app: Server, db: Kysely<Tables>): void {
  app.get(
    '/me/search',
    {
      config: { access: 'signed-in', errors: [] },
      schema: {
        tags: ['sessions'],
        summary: "Searches the names and messages of the user's sessions",
        description: 'Finds texts that have a word with each beginning, in any letter case.',
        querystring: Type.Object({
          q: storableText({ minLength: 1, maxLength: 200, description: 'Beginnings of words.' }),
          ...createPageQuery(PAGE_LIMITS),
        }),
        response: {
          200: Type.Array(hitSchema, {
            description: 'Hits, newest first.',
            examples: [[hitExample]],
          }),
        },
      },
    },
    async (request, reply) => {
      const { q, limit = PAGE_LIMITS.limit, cursor } = request.query;
      const words = unifySpelling(q).match(/[\p{L}\p{N}]+/gu);
      if (words === null) {
        const message = 'must contain a letter or a digit';
        throw problem('validation_failed', { errors: [{ path: 'querystring/q', message }] });
      }
      const { id: userId } = getSignedInUser(request);
      const after = positionCursors.read(cursor);
      const rows = await findHits(db, { userId, words, after, limit: limit + 1 });
      return paginate(rows, { limit, getCursor, request, reply }).map(
        ({ id: _id, created_us: _createdUs, text, created_at: createdAt, ...hit }) => ({
          ...hit,
          created_at: createdAt?.toISOString() ?? null,
          highlight: highlight(text, words),
        }),
      );
    },
  );
}

type HitRow = {
  id: string;
  session_id: string;
  session_name: string;
  message_id: string | null;
  role: string | null;
  text: string;
  created_at: Date | null;
  created_us: number | null;
};

const getCursor = ({ id, created_us }: HitRow) => positionCursors.write([created_us, id]);

const hitOrder = buildTimeOrder('created_at');

/** Returns the sessions and messages of a user that have all words, newest first. */
async function findHits(
  db: Kysely<Tables>,
  search: { userId: string; words: string[]; after: Position | undefined; limit: number },
): Promise<HitRow[]> {
  const { userId, words, after, limit } = search;
  const prefixes = words.map((word) => `'${word}':*`).join(' & ');
  const query = sql`to_tsquery('pg_catalog.simple', ${prefixes})`;
  const { rows } = await sql<HitRow>`
    select hits.*, ${hitOrder.microseconds} as created_us from (
      select id, id as session_id, coalesce(name, '') as session_name, null as message_id,
        null as role, coalesce(name, '') as text, coalesce(created_at, last_active) as created_at
      from conversation_sessions
      where user_id = ${userId} and text_words(name) @@ ${query}
      union all
      select messages.id, session_id, coalesce(name, ''), messages.id, role, content,
        messages.created_at
      from conversation_messages as messages
      join conversation_sessions as sessions on sessions.id = session_id
      where user_id = ${userId} and text_words(content) @@ ${query}) as hits
    where ${after === undefined ? sql`true` : hitOrder.isAfter(after)}
    order by ${hitOrder.time} desc, id desc
    limit ${limit}`.execute(db);
  return rows;
}

/** Unifies spellings as the SQL function `text_words` does, one UTF-16 code unit for each. */
const unifySpelling = (text: string) =>
  text.replaceAll(/[ʼ’]/g, "'").replaceAll('ё', 'е').replaceAll('Ё', 'Е');

/** Returns the passage around the first word with one of the beginnings, as HTML with marked words. */
function highlight(text: string, beginnings: readonly string[]): string {
  const pattern = new RegExp(
    String.raw`(?<![\p{L}\p{N}])(?:${beginnings.join('|')})[\p{L}\p{N}]*`,
    'giu',
  );
  const searchedText = unifySpelling(text.slice(0, MAX_SEARCHED_LENGTH));
  const matches = [...searchedText.matchAll(pattern)];
  const firstIndex = matches[0]?.index ?? 0;
  const leadStart = Math.max(0, firstIndex - LEAD_LENGTH);
  const start =
    leadStart === 0 ? 0 : leadStart + text.slice(leadStart, firstIndex).search(/\s/) + 1;
  const end = Math.min(text.length, start + PASSAGE_LENGTH);
  let html = start > 0 ? '…' : '';
  let writtenEnd = start;
  for (const { 0: word, index } of matches) {
    if (index + word.length > end) break;
    html += `${escapeHtml(text.slice(writtenEnd, index))}<mark>${escapeHtml(text.slice(index, index + word.length))}</mark>`;
    writtenEnd = index + word.length;
  }
  html += escapeHtml(text.slice(writtenEnd, end)) + (end < text.length ? '…' : '');
  return html.toWellFormed();
}
