import { pageQuery } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { nullable, storableText, timestamp, userId } from '../schema.ts';
import type { Message } from './messages.sql.ts';
import type { SessionSummary } from './repository.ts';

/** How many sessions a page has, unless the caller says and at most. */
export const SESSIONS_PAGE = { limit: 100, maxLimit: 500 };

/** How many messages, or steps, a page has. */
export const MESSAGES_PAGE = { limit: 1000, maxLimit: 1000 };

/** A path that names a session. Ids of an older system may be any text. */
export const sessionParams = Type.Object({
  id: storableText({ minLength: 1, maxLength: 300, description: "The session's id." }),
});

/** A session, for examples of what holds one. */
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

/** A message, for examples of what holds one. */
export const exampleMessage = {
  id: '6b0f2f0e-0f55-4c3c-8f0f-3d4b5f7f2a11',
  role: 'user',
  content: 'Двокімнатна квартира біля парку, до 15 000 грн',
  created_at: '2026-03-04T17:42:10.000Z',
};

/** Specification 000, Session summary item. */
export const summarySchema = Type.Object(
  {
    session_id: Type.String(),
    profile_id: Type.String({ description: 'Empty where an older system named none.' }),
    user_id: nullable(
      Type.String({ description: "The owner; null for an older system's, which only admins see." }),
    ),
    name: Type.String(),
    message_count: Type.Integer(),
    pinned: Type.Boolean(),
    created_at: timestamp(),
    last_active: timestamp(),
  },
  {
    $id: 'SessionSummary',
    examples: [exampleSession],
  },
);

/** Refers to the schema of a session's summary. */
export const summaryRef = Type.Unsafe<Static<typeof summarySchema>>(Type.Ref('SessionSummary'));

/** A session's summary, as an answer. */
export const summaryAnswer = { ...summaryRef, description: 'The session as it now is.' };

/** A session as the API answers it. */
export function presentSession(session: SessionSummary): Static<typeof summarySchema> {
  return {
    session_id: session.session_id,
    profile_id: session.profile_id,
    user_id: session.user_id,
    name: session.name,
    message_count: session.message_count,
    pinned: session.pinned,
    created_at: session.created_at.toISOString(),
    last_active: session.last_active.toISOString(),
  };
}

/** What a list of sessions is asked for with. */
export const sessionsQuery = Type.Object({
  user_id: Type.Optional(userId),
  ...pageQuery(SESSIONS_PAGE),
});

/** A page of sessions. */
export const sessionsAnswer = Type.Array(summaryRef, {
  description: 'The most recently active first.',
  examples: [[exampleSession]],
});

/** A page of messages, or of steps: the latest, unless a cursor says otherwise. */
export const latestQuery = Type.Object(pageQuery(MESSAGES_PAGE));

const messageSchema = Type.Object(
  {
    id: Type.String(),
    role: Type.String({ description: 'Such as `user` or `assistant`.' }),
    content: Type.String(),
    tool_calls: Type.Optional(Type.Unknown({ description: 'What the assistant used.' })),
    created_at: nullable(timestamp("Null where an older system's row does not say.")),
    status: Type.Optional(
      Type.Enum(['cancelled', 'failed', 'cut'], {
        description:
          'Why an answer is not complete: its user cancelled it, it failed, or its process ended. It is not there where it is.',
      }),
    ),
    client_message_id: Type.Optional(
      Type.String({ description: 'The name that its client gave it, where it did.' }),
    ),
    unasked: Type.Optional(
      Type.Boolean({
        description:
          'True for a message that came by itself, such as the digest of a saved search: it answers no other one.',
      }),
    ),
    problem: Type.Optional(
      Type.Unknown({ description: 'What was wrong with an answer that failed, as a problem.' }),
    ),
  },
  {
    $id: 'Message',
    examples: [exampleMessage],
  },
);

/** Refers to the schema of a message. */
export const messageRef = Type.Unsafe<Static<typeof messageSchema>>(Type.Ref('Message'));

/** A message as the API answers it. */
export function presentMessage(message: Message): Static<typeof messageSchema> {
  return {
    id: message.id,
    role: message.role,
    content: message.content,
    ...(message.tool_calls !== null && { tool_calls: message.tool_calls }),
    created_at: message.created_at?.toISOString() ?? null,
    ...(message.status !== null && { status: message.status }),
    ...(message.unasked && { unasked: true }),
    ...(message.problem !== null && { problem: message.problem }),
    ...(message.client_message_id !== null && { client_message_id: message.client_message_id }),
  };
}

/** A session with its messages. Contract 3, Answers. */
export const conversationAnswer = Type.Object(
  {
    ...summarySchema.properties,
    messages: Type.Array(messageRef, { description: 'In their order.' }),
  },
  {
    description:
      'The session and its latest messages. `Link: …; rel="next"` leads to those before them.',
    examples: [{ ...exampleSession, message_count: 1, messages: [exampleMessage] }],
  },
);

/** What of a session can be changed. */
export const sessionChanges = Type.Object(
  {
    name: Type.Optional(storableText({ maxLength: 200 })),
    pinned: Type.Optional(Type.Boolean()),
  },
  {
    additionalProperties: false,
    minProperties: 1,
    examples: [{ name: 'Two rooms near the park', pinned: true }],
  },
);

/** The schemas that routes refer to. */
export const sharedSchemas = [summarySchema, messageSchema];
