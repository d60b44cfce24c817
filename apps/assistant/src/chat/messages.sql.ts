import { randomUUID } from 'node:crypto';
import { type Kysely, sql, type Transaction } from 'kysely';
import { storable, storableJson } from '../text.ts';
import { type Message, messageColumns } from '../sessions/index.ts';
import type { Tables, Unfinished } from '../tables.ts';

/** A message to store. */
export type NewMessage = {
  sessionId: string;
  turnId: string | null;
  role: 'user' | 'assistant';
  content: string;
  toolCalls?: unknown;
  status?: Unfinished | null;
  problem?: object | null;
  clientMessageId?: string | undefined;
  /** What models are told of it instead. */
  kept?: string;
  /** Whether it comes by itself, and answers no other message. */
  unasked?: boolean;
};

/** Stores a message of a session, which is active by it. */
export async function insertMessage(
  trx: Transaction<Tables>,
  message: NewMessage,
): Promise<Message> {
  const { sessionId, turnId, role, content, clientMessageId } = message;
  const { toolCalls, status = null, problem = null, kept = null, unasked = false } = message;
  await trx
    .updateTable('conversation_sessions')
    .set({ last_active: sql<Date>`now()` })
    .where('id', '=', sessionId)
    .execute();
  return trx
    .insertInto('conversation_messages')
    .values({
      id: randomUUID(),
      session_id: sessionId,
      turn_id: turnId,
      role,
      content: storable(content),
      tool_calls: toolCalls === undefined ? null : storableJson(toolCalls),
      status,
      problem: problem === null ? null : storableJson(problem),
      client_message_id: clientMessageId ?? null,
      kept,
      unasked,
      // Of one transaction that waited for another, `now()` would be before what the other stored.
      created_at: sql<Date>`clock_timestamp()`,
    })
    .returning(messageColumns)
    .executeTakeFirstOrThrow();
}

/** A message of a session by the name that its client gave it; nothing where none has it. */
export function findSent(
  db: Kysely<Tables>,
  { sessionId, clientMessageId }: { sessionId: string; clientMessageId: string },
): Promise<Message | undefined> {
  return db
    .selectFrom('conversation_messages')
    .select(messageColumns)
    .where('session_id', '=', sessionId)
    .where('client_message_id', '=', clientMessageId)
    .executeTakeFirst();
}

/** A message by its id. */
export function findMessage(db: Kysely<Tables>, id: string): Promise<Message | undefined> {
  return db
    .selectFrom('conversation_messages')
    .select(messageColumns)
    .where('id', '=', id)
    .executeTakeFirst();
}

/** Which message, and of which session: by that its turns are found. */
export type QuestionKey = { sessionId: string; questionId: string };

/** The answer to a message, of whichever turn; nothing where it has none. */
export function findAnswer(
  db: Kysely<Tables>,
  question: QuestionKey,
): Promise<Message | undefined> {
  return db
    .selectFrom('conversation_messages')
    .select(messageColumns)
    .where('role', '=', 'assistant')
    .where('turn_id', 'in', turnsOf(question))
    .executeTakeFirst();
}

/** Deletes the answer to a message, which another one takes the place of. */
export async function deleteAnswer(trx: Transaction<Tables>, question: QuestionKey): Promise<void> {
  await trx
    .deleteFrom('conversation_messages')
    .where('role', '=', 'assistant')
    .where('turn_id', 'in', turnsOf(question))
    .execute();
}

const turnsOf = ({ sessionId, questionId }: QuestionKey) => sql<string>`(
  select id from chat_turns where session_id = ${sessionId} and question_id = ${questionId})`;
