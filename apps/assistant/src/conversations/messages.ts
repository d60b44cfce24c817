import { randomUUID } from 'node:crypto';
import { createCursorCodec } from '@oselya/kit';
import { type Kysely, sql, type Transaction } from 'kysely';
import { type Static, Type } from 'typebox';
import type { AccessScope } from '../access/permissions.ts';
import { buildTimeOrder } from '../pages.ts';
import { nullable } from '../schema.ts';
import { toStorableText, toStorableJson } from '../text.ts';
import type { Tables, IncompleteTurnStatus } from '../tables.ts';
import { whereSessionInScope } from './session-rows.ts';

const { MAX_SAFE_INTEGER } = Number;
const integerSchema = Type.Integer({ minimum: -MAX_SAFE_INTEGER, maximum: MAX_SAFE_INTEGER });
const positionSchema = Type.Tuple([nullable(integerSchema), integerSchema]);

/** Sort key of a message in its session: microseconds since 1970, or null without a time; and the message number. */
export type MessagePosition = Static<typeof positionSchema>;

/** Encodes and decodes message positions as API cursors. */
export const messageCursors = createCursorCodec(positionSchema);

/** The time comes first, because the numbers of rows from an older system have no reliable order. */
const sentOrder = buildTimeOrder('created_at');

/** A conversation message. Contract 3, Further endpoints. */
export type Message = {
  id: string;
  role: string;
  content: string;
  tool_calls: unknown;
  /** Null in some rows from an older system. */
  created_at: Date | null;
  /** Reason for an incomplete answer. Null for a complete answer and for other messages. */
  status: IncompleteTurnStatus | null;
  problem: unknown;
  client_message_id: string | null;
  /** Text for the model, if it differs from `content`. */
  kept: string | null;
  /** Whether the assistant sent the message unprompted, as it does with a digest. */
  unasked: boolean;
};

const messageColumns = [
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

/** Query for a page of a session's messages, before or after a position. */
export type MessagePage = {
  sessionId: string;
  before?: MessagePosition | undefined;
  after?: MessagePosition | undefined;
  limit: number;
};

type PositionedMessage = Message & { position: MessagePosition };

/** Returns a page of the messages of a session in an access scope with their positions, newest first. */
export async function listMessages(
  db: Kysely<Tables>,
  page: MessagePage & { scope: AccessScope },
): Promise<PositionedMessage[]> {
  const query = selectPage(db, page).orderBy(sentOrder.time, 'desc').orderBy('position', 'desc');
  return (await query.execute()).map(toPositionedMessage);
}

/** Returns messages up to and including `lastPosition`, oldest first. See {@link listMessages}. */
export async function listOldestMessages(
  db: Kysely<Tables>,
  { lastPosition, ...page }: MessagePage & { scope: AccessScope; lastPosition: MessagePosition },
): Promise<PositionedMessage[]> {
  const query = selectPage(db, page).where(comparePosition('<=', lastPosition));
  return (await query.orderBy(sentOrder.time).orderBy('position').execute()).map(
    toPositionedMessage,
  );
}

function selectPage(
  db: Kysely<Tables>,
  { sessionId, scope, before, after, limit }: MessagePage & { scope: AccessScope },
) {
  let query = db
    .selectFrom('conversation_messages')
    .select([...messageColumns, 'position', sentOrder.microseconds.as('sent_us')])
    .where('session_id', '=', sessionId)
    .where(whereSessionInScope(scope, 'conversation_messages.session_id'))
    .limit(limit);
  if (before !== undefined) query = query.where(comparePosition('<', before));
  if (after !== undefined) query = query.where(comparePosition('>', after));
  return query;
}

type MessageRow = Message & { sent_us: number | null; position: number };

const toPositionedMessage = ({
  sent_us,
  position: messageNumber,
  ...message
}: MessageRow): PositionedMessage => ({
  ...message,
  position: [sent_us, messageNumber],
});

function comparePosition(operator: '<' | '<=' | '>', [microseconds, number]: MessagePosition) {
  const time = sql`'epoch'::timestamptz + ${microseconds}::bigint * interval '1 microsecond'`;
  return sql<boolean>`(${sentOrder.time}, position) ${sql.raw(operator)} (coalesce(${time}, '-infinity'), ${number}::bigint)`;
}

export type NewMessage = {
  sessionId: string;
  turnId: string | null;
  role: 'user' | 'assistant';
  content: string;
  toolCalls?: unknown;
  status?: IncompleteTurnStatus | null;
  problem?: object | null;
  clientMessageId?: string | undefined;
  kept?: string;
  unasked?: boolean;
};

/** Inserts a message and marks its session as active. */
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
      content: toStorableText(content),
      tool_calls: toolCalls === undefined ? null : toStorableJson(toolCalls),
      status,
      problem: problem === null ? null : toStorableJson(problem),
      client_message_id: clientMessageId ?? null,
      kept,
      unasked,
      // `now()` is the start of the transaction, and another transaction may have inserted a message since.
      created_at: sql<Date>`clock_timestamp()`,
    })
    .returning(messageColumns)
    .executeTakeFirstOrThrow();
}

/** Returns a message by its ID, or by its client message ID in a session. */
export function findMessage(
  db: Kysely<Tables>,
  key: { id: string } | { sessionId: string; clientMessageId: string },
): Promise<Message | undefined> {
  const query = db.selectFrom('conversation_messages').select(messageColumns);
  return (
    'id' in key
      ? query.where('id', '=', key.id)
      : query
          .where('session_id', '=', key.sessionId)
          .where('client_message_id', '=', key.clientMessageId)
  ).executeTakeFirst();
}

/** Key of a question. It contains the session ID, because the index on turns begins with it. */
type QuestionKey = { sessionId: string; questionId: string };

/** Returns the answer to a question; undefined if no turn has stored one. */
export function findAnswer(
  db: Kysely<Tables>,
  question: QuestionKey,
): Promise<Message | undefined> {
  return db
    .selectFrom('conversation_messages')
    .select(messageColumns)
    .where('role', '=', 'assistant')
    .where('turn_id', 'in', selectTurnIds(question))
    .executeTakeFirst();
}

/** Deletes the answer to a question. */
export async function deleteAnswer(trx: Transaction<Tables>, question: QuestionKey): Promise<void> {
  await trx
    .deleteFrom('conversation_messages')
    .where('role', '=', 'assistant')
    .where('turn_id', 'in', selectTurnIds(question))
    .execute();
}

const selectTurnIds = ({ sessionId, questionId }: QuestionKey) => sql<string>`(
  select id from chat_turns where session_id = ${sessionId} and question_id = ${questionId})`;
