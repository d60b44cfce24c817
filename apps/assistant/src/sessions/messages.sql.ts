import { type Kysely, sql } from 'kysely';
import { newestFirst } from '../pages.ts';
import type { Tables, Unfinished } from '../tables.ts';
import type { AccessScope } from '../access/permissions.ts';
import type { MessagePosition } from './message-positions.ts';
import { isSessionWithin } from './ownership.sql.ts';

/** Rows of an older system were numbered when they were found, in no certain order: time goes first. */
const sent = newestFirst('created_at');

/** A message of a conversation. Contract 3, Answers. */
export type Message = {
  id: string;
  role: string;
  content: string;
  /** What the assistant used, where it did. */
  tool_calls: unknown;
  /** Null where an older system did not say. */
  created_at: Date | null;
  /** Null for what is complete; else why an answer is not. */
  status: Unfinished | null;
  /** What was wrong with it, as clients are told. */
  problem: unknown;
  /** The name that its client gave it. */
  client_message_id: string | null;
  /** What models are told of it instead of the content, where that is less. */
  kept: string | null;
  /** Whether it came by itself, such as a digest: it answers no other message. */
  unasked: boolean;
};

/** What is read of a {@link Message}. */
export const messageColumns = [
  'id',
  'role',
  sql<string>`coalesce(content, '')`.as('content'),
  'tool_calls',
  'created_at',
  'status',
  'problem',
  'client_message_id',
  'kept',
  'unasked',
] as const;

/** Which messages of which session: those before a position, or after one. */
export type MessagePage = {
  sessionId: string;
  before?: MessagePosition | undefined;
  after?: MessagePosition | undefined;
  limit: number;
};

/**
 * The messages of a session within reach, the newest first.
 * @returns At most `limit`, each with its position.
 */
export async function listMessages(
  db: Kysely<Tables>,
  page: MessagePage & { reach: AccessScope },
): Promise<PlacedMessage[]> {
  const rows = await matching(db, page)
    .orderBy(sent.time, 'desc')
    .orderBy('position', 'desc')
    .execute();
  return rows.map(placed);
}

/**
 * As `listMessages`, the oldest first.
 * @param page.upTo The last that is meant.
 */
export async function listOldestMessages(
  db: Kysely<Tables>,
  { upTo, ...page }: MessagePage & { reach: AccessScope; upTo: MessagePosition },
): Promise<PlacedMessage[]> {
  const rows = await matching(db, page)
    .where(isPlaced('<=', upTo))
    .orderBy(sent.time)
    .orderBy('position')
    .execute();
  return rows.map(placed);
}

/** A message with its place in the session. */
type PlacedMessage = Message & { position: MessagePosition };

function matching(
  db: Kysely<Tables>,
  { sessionId, reach, before, after, limit }: MessagePage & { reach: AccessScope },
) {
  let query = db
    .selectFrom('conversation_messages')
    .select([...messageColumns, 'position', sent.microseconds.as('sent_us')])
    .where('session_id', '=', sessionId)
    .where(isSessionWithin(reach, 'conversation_messages.session_id'))
    .limit(limit);
  if (before !== undefined) query = query.where(isPlaced('<', before));
  if (after !== undefined) query = query.where(isPlaced('>', after));
  return query;
}

function placed({
  sent_us: sentUs,
  position: number,
  ...message
}: Message & { sent_us: number | null; position: number }): PlacedMessage {
  return { ...message, position: [sentUs, number] };
}

function isPlaced(where: '<' | '<=' | '>', [microseconds, number]: MessagePosition) {
  const time = sql`'epoch'::timestamptz + ${microseconds}::bigint * interval '1 microsecond'`;
  return sql<boolean>`(${sent.time}, position) ${sql.raw(where)} (coalesce(${time}, '-infinity'), ${number}::bigint)`;
}
