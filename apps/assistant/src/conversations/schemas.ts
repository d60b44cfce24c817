import { createPageQuery } from '@oselya/kit';
import {
  clientMessages,
  exampleMessage,
  exampleSession,
  type Message as MessageBody,
  messageSchema,
  type Session as SessionBody,
  sessionSchema,
} from '@oselya/protocol';
import { Type } from 'typebox';
import { storableText, userIdSchema } from '../schema.ts';
import { readFinds } from './finds.ts';
import type { Message } from './messages.ts';
import type { SessionSummary } from './session-rows.ts';

/** Default and maximum number of sessions per page. */
export const SESSIONS_PAGE_LIMITS = { limit: 100, maxLimit: 500 };

/** Default and maximum number of messages or steps per page. */
export const MESSAGES_PAGE_LIMITS = { limit: 1000, maxLimit: 1000 };

/** Path parameters for a session. Any 1 to 300 characters can be an ID, because older systems used other formats. */
export const sessionParams = Type.Object({
  id: storableText({ minLength: 1, maxLength: 300, description: "The session's ID." }),
});

/** Schemas that routes reference by `$id`. */
export const sharedSchemas = [sessionSchema, messageSchema];

const sessionRef = Type.Unsafe<SessionBody>(Type.Ref('SessionSummary'));

export const messageRef = Type.Unsafe<MessageBody>(Type.Ref('Message'));

export const sessionResponse = { ...sessionRef, description: 'The changed session.' };

export const sessionsQuery = Type.Object({
  user_id: Type.Optional(userIdSchema),
  ...createPageQuery(SESSIONS_PAGE_LIMITS),
});

export const sessionsResponse = Type.Array(sessionRef, {
  description: 'Sessions, most recently active first.',
  examples: [[exampleSession]],
});

/** Query parameters for a page of messages or steps. The first page contains the latest. */
export const latestPageQuery = Type.Object(createPageQuery(MESSAGES_PAGE_LIMITS));

export const conversationResponse = Type.Object(
  {
    ...sessionSchema.properties,
    messages: Type.Array(messageRef, { description: 'Messages, oldest first.' }),
  },
  {
    description:
      'The session and its latest messages. `Link: …; rel="next"` leads to the earlier ones.',
    examples: [{ ...exampleSession, message_count: 1, messages: [exampleMessage] }],
  },
);

export const sessionChanges = Type.Object(
  {
    name: clientMessages['session.create'].members.name,
    pinned: Type.Optional(Type.Boolean()),
  },
  {
    additionalProperties: false,
    minProperties: 1,
    examples: [{ name: exampleSession.name, pinned: true }],
  },
);

/** Converts a session to its API form. */
export function presentSession(session: SessionSummary): SessionBody {
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

/** Converts a message to its API form, which omits optional members without a value. */
export function presentMessage({ created_at, unasked, kept, ...message }: Message): MessageBody {
  const { id, role, content, tool_calls, status, problem, client_message_id } = message;
  return {
    id,
    role,
    content,
    ...(tool_calls !== null && { tool_calls }),
    created_at: created_at?.toISOString() ?? null,
    ...(status !== null && { status }),
    ...(unasked && { unasked }),
    ...(kept !== null && { finds: readFinds(kept) }),
    ...(problem !== null && { problem }),
    ...(client_message_id !== null && { client_message_id }),
  };
}
