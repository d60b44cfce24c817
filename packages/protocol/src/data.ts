import { type Static, type TSchema, Type } from 'typebox';
import { MAX_ID_LENGTH } from './limits.ts';

/** Pattern of text without NUL characters, which PostgreSQL cannot store. */
export const STORABLE_PATTERN = '^[^\\u0000]*$';

/** Creates a schema for non-empty text that PostgreSQL can store. */
export const createTextSchema = (maxLength: number, description: string) =>
  Type.String({ pattern: STORABLE_PATTERN, minLength: 1, maxLength, description });
const createNullableSchema = <Schema extends TSchema>(schema: Schema) =>
  Type.Union([schema, Type.Null()]);
const createTimestampSchema = (description?: string) =>
  Type.String({ format: 'date-time', ...(description && { description }) });

/** Schema of a message `id`: a string or an integer. The client sets it, and replies repeat it. */
export const messageIdSchema = Type.Union([
  Type.String({ maxLength: MAX_ID_LENGTH }),
  Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
]);
export type MessageId = Static<typeof messageIdSchema>;

export const exampleSession = {
  session_id: '0d2b7a3e-5a5c-4a8e-9a55-3f1f2f6f7c10',
  profile_id: 'default',
  user_id: 'u-1',
  name: 'Two rooms near the park',
  message_count: 12,
  pinned: false,
  created_at: '2026-03-02T09:15:00.000Z',
  last_active: '2026-03-04T17:42:10.000Z',
};

export const exampleMessage = {
  id: '6b0f2f0e-0f55-4c3c-8f0f-3d4b5f7f2a11',
  role: 'user',
  content: 'Двокімнатна квартира біля парку, до 15 000 грн',
  created_at: '2026-03-04T17:42:10.000Z',
};

/** Session schema. Specification 000, Session summary item. */
export const sessionSchema = Type.Object(
  {
    session_id: Type.String(),
    profile_id: Type.String({
      description: 'ID of the profile. Empty for a session of an older system without a profile.',
    }),
    user_id: createNullableSchema(
      Type.String({
        description:
          'ID of the owner. Null for a session of an older system, which only administrators see.',
      }),
    ),
    name: Type.String(),
    message_count: Type.Integer(),
    pinned: Type.Boolean(),
    created_at: createTimestampSchema(),
    last_active: createTimestampSchema(),
  },
  { $id: 'SessionSummary', examples: [exampleSession] },
);
export type Session = Static<typeof sessionSchema>;

/** Stored message schema. Contract 3, Answers. */
export const messageSchema = Type.Object(
  {
    id: Type.String(),
    role: Type.String({ description: 'Such as `user` or `assistant`.' }),
    content: Type.String(),
    tool_calls: Type.Optional(Type.Unknown({ description: 'Tools that the assistant used.' })),
    created_at: createNullableSchema(
      createTimestampSchema(
        'Time of the message. Null for a message of an older system without a time.',
      ),
    ),
    status: Type.Optional(
      Type.Enum(['cancelled', 'failed', 'cut'], {
        description:
          'Reason why an answer is incomplete: the user cancelled it, it failed, or its process ended. Absent from a complete answer.',
      }),
    ),
    client_message_id: Type.Optional(
      Type.String({ description: 'Name that the client gave the message.' }),
    ),
    unasked: Type.Optional(
      Type.Boolean({
        description:
          'True for a message that does not answer another message, such as the digest of a saved search.',
      }),
    ),
    finds: Type.Optional(
      Type.Array(
        Type.Object({
          listing_id: Type.Integer(),
          reason: Type.String({
            description: '`new` or `cheaper`. Later versions may add reasons.',
          }),
        }),
        {
          description:
            'Listings that the digest of a saved search shows. Absent from other messages.',
        },
      ),
    ),
    problem: Type.Optional(
      Type.Unknown({ description: 'Error of a failed answer, as a problem.' }),
    ),
  },
  { $id: 'Message', examples: [exampleMessage] },
);
export type Message = Static<typeof messageSchema>;

/** Problem schema, with the members that clients use. RFC 9457. */
export const problemSchema = Type.Object(
  {
    title: Type.String(),
    status: Type.Integer(),
    code: Type.String(),
    detail: Type.Optional(Type.String()),
    errors: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
  },
  { $id: 'Problem' },
);
export type Problem = Static<typeof problemSchema>;

/** Schema of a memory change: a fact that a tool wrote or removed. */
const memoryChangeSchema = Type.Object({
  category: Type.String(),
  key: Type.String(),
  value: createNullableSchema(
    Type.String({ description: 'New value. Null if the fact was removed.' }),
  ),
  previous: createNullableSchema(
    Type.String({ description: 'Previous value. Null if the fact is new.' }),
  ),
});
export type MemoryChange = Static<typeof memoryChangeSchema>;

const toolSchemas = {
  step_id: Type.String({ description: 'ID of the step, as in `GET /sessions/{id}/planning`.' }),
  name: Type.String(),
  title: Type.String({ description: 'Activity of the tool, as text for people.' }),
};
/** Schema of a tool call that has started. */
export const startedToolCallSchema = Type.Object({
  ...toolSchemas,
  input: Type.Optional(
    Type.Unknown({
      description: 'Input from the model, even if the tool rejects it. Absent from older servers.',
    }),
  ),
});
/** Schema of a tool call that has finished. */
export const finishedToolCallSchema = Type.Object({
  ...toolSchemas,
  status: Type.Enum(['done', 'failed']),
  summary: Type.String({ description: 'Result of the tool, as text for people.' }),
  changes: Type.Array(memoryChangeSchema, {
    description: "Changes in the user's memory; `memory.undo` reverts them.",
  }),
  listing_ids: Type.Optional(
    Type.Array(Type.Integer(), {
      description: 'IDs of the listings that the tool read, best first. Absent from other tools.',
    }),
  ),
});
export type ToolCallInfo = Static<typeof startedToolCallSchema>;

/** Parts of a user's data whose changes sockets report. */
export const userParts = ['sessions', 'marks'] as const;
export type UserPart = (typeof userParts)[number];

/** Schema of the sessions with unread messages. */
export const unreadSchema = Type.Array(
  Type.Object({
    session_id: Type.String(),
    count: Type.Integer({ description: 'Number of messages of the assistant.' }),
  }),
  { description: 'The sessions of the user with unread messages, latest first.' },
);
export type UnreadSession = Static<typeof unreadSchema>[number];
