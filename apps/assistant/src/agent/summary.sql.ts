import { type Kysely, sql } from 'kysely';
import type { AccessScope } from '../access/permissions.ts';
import { isSessionWithin, type MessagePosition } from '../sessions/index.ts';
import { storable } from '../text.ts';
import type { Tables } from '../tables.ts';

/** What the earlier messages of a session say. */
export type ConversationSummary = {
  text: string;
  /** The last message that it tells of. */
  through: MessagePosition;
  /** How many summaries of the session there have been, with this one. */
  revision: number;
  updatedAt: Date;
};

/** The summary of a session within reach; nothing where there is none. */
export async function findConversationSummary(
  db: Kysely<Tables>,
  { sessionId, reach }: { sessionId: string; reach: AccessScope },
): Promise<ConversationSummary | undefined> {
  const row = await db
    .selectFrom('conversation_summaries')
    .select(['summary', 'through_sent_us', 'through_position', 'revision', 'updated_at'])
    .where('session_id', '=', sessionId)
    .where(isSessionWithin(reach, 'conversation_summaries.session_id'))
    .executeTakeFirst();
  return row && toSummary(row);
}

/**
 * Stores a summary in the place of the one that it was made from.
 * @param next.revision Of the one that it was made from; 0 where there was none.
 * @returns Nothing where another one has been stored meanwhile, or the session has gone.
 */
export async function storeConversationSummary(
  db: Kysely<Tables>,
  sessionId: string,
  next: Pick<ConversationSummary, 'text' | 'through' | 'revision'>,
): Promise<ConversationSummary | undefined> {
  const [sentUs, position] = next.through;
  const { rows } = await sql<Parameters<typeof toSummary>[0]>`
    insert into conversation_summaries as stored
      (session_id, summary, through_sent_us, through_position, revision)
    select id, ${storable(next.text)}, ${sentUs}::bigint, ${position}::bigint, ${next.revision + 1}::integer
    from conversation_sessions where id = ${sessionId}
    on conflict (session_id) do update set
      summary = excluded.summary, through_sent_us = excluded.through_sent_us,
      through_position = excluded.through_position, revision = excluded.revision, updated_at = now()
    where stored.revision = ${next.revision}::integer
    returning summary, through_sent_us, through_position, revision, updated_at`.execute(db);
  const [row] = rows;
  return row && toSummary(row);
}

function toSummary(row: {
  summary: string;
  through_sent_us: number | null;
  through_position: number;
  revision: number;
  updated_at: Date;
}): ConversationSummary {
  return {
    text: row.summary,
    through: [row.through_sent_us, row.through_position],
    revision: row.revision,
    updatedAt: row.updated_at,
  };
}
