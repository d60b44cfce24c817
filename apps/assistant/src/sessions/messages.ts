import { cursors } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import { type Static, Type } from 'typebox';
import { newestFirst } from '../newest-first.ts';
import { nullable } from '../schema.ts';
import type { Tables, Unfinished } from '../tables.ts';
import type { Reach } from '../access/reach.ts';
import { isSessionWithin } from './ownership.ts';

const integer = Type.Integer({
  minimum: -Number.MAX_SAFE_INTEGER,
  maximum: Number.MAX_SAFE_INTEGER,
});

const position = Type.Tuple([nullable(integer), integer]);

/** Where a page of messages ended: microseconds since 1970, where that is known, and its number. */
export type MessagePosition = Static<typeof position>;

/** Positions as callers carry them. */
export const messagePositions = cursors(position);

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
};

/** Which messages of which session: those before a position. */
export type MessagePage = {
  sessionId: string;
  before?: MessagePosition | undefined;
  limit: number;
};

/**
 * The messages of a session within reach, the newest first.
 * @returns At most `limit`, each with its position.
 */
export async function listMessages(
  db: Kysely<Tables>,
  { sessionId, reach, before, limit }: MessagePage & { reach: Reach },
): Promise<(Message & { position: MessagePosition })[]> {
  let query = db
    .selectFrom('conversation_messages')
    .select([
      'id',
      'role',
      'tool_calls',
      'created_at',
      'status',
      'problem',
      'client_message_id',
      'position',
    ])
    .select([sql<string>`coalesce(content, '')`.as('content'), sent.microseconds.as('sent_us')])
    .where('session_id', '=', sessionId)
    .where(isSessionWithin(reach, 'conversation_messages.session_id'))
    .orderBy(sent.time, 'desc')
    .orderBy('position', 'desc')
    .limit(limit);
  if (before !== undefined) query = query.where(isBefore(before));
  const rows = await query.execute();
  return rows.map(({ sent_us, position: number, ...message }) => ({
    ...message,
    position: [sent_us, number],
  }));
}

function isBefore([microseconds, number]: MessagePosition) {
  const time = sql`'epoch'::timestamptz + ${microseconds}::bigint * interval '1 microsecond'`;
  return sql<boolean>`(${sent.time}, position) < (coalesce(${time}, '-infinity'), ${number}::bigint)`;
}
