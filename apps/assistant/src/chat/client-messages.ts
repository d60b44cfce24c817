import { MAX_TEXT_LENGTH } from '@oselya/kit';
import { Type } from 'typebox';
import { storableText } from '../schema.ts';
import {
  exampleMessage,
  exampleSession,
  messageRef,
  sessionChanges,
  sessionParams,
  summaryRef,
} from '../sessions/index.ts';
import { clientMessage, serverMessage } from '../sockets/definitions.ts';
import { answerEvents } from './events.ts';

/** Opening a session, a new one or one that is there, and speaking in it. Contract 3, Answers. */
const useProfiles = { permission: 'svc.profiles.use' } as const;

/** How many of the latest messages an opened session comes with: a page of HTTP has ten times as many. */
export const OPENED_MESSAGES = 100;

/**
 * How many letters of messages, with all that is sent of them, one user's opening of sessions may bring in a minute, over
 * all sockets of a process: about ten times the latest messages of a session where each is as long as may be. Those of
 * ordinary sessions are some hundreds.
 */
export const OPENED_LETTERS_PER_MINUTE = 16_000_000;

/** What a session counts as beside its messages. */
export const OPENED_LETTERS = 1000;

/** More than any answer has: what the database numbers events with goes no further. */
const MAX_SEQ = 2 ** 31 - 1;

const sessionId = { session_id: sessionParams.properties.id };
const session = { session_id: Type.String(), session: summaryRef };
const stepId = storableText({
  minLength: 1,
  maxLength: 100,
  description: 'Of the step that changed the memory: of `tool.finished`.',
});
const clientMessageId = storableText({
  minLength: 1,
  maxLength: 100,
  description: "The client's name for it: sent again under the same name it is the same message.",
});

const ofSession = { session_id: exampleSession.session_id };
const inSession = { ...ofSession, session: exampleSession };
const named = { ...ofSession, client_message_id: 'm-1' };
const step = { ...ofSession, step_id: '9f4c0a56-1f6e-4f5e-8f57-0a1b2c3d4e5f' };

const created = serverMessage({
  type: 'session.created',
  description: 'The session is there, and the socket hears what happens in it.',
  members: session,
  example: inSession,
});

const opened = serverMessage({
  type: 'session.opened',
  description:
    'The session as it is. To its owner the events of the answer that is being written follow, and then those of later ones.',
  members: {
    ...session,
    messages: Type.Array(messageRef, {
      maxItems: OPENED_MESSAGES,
      description: 'The latest, in their order; `GET /sessions/{id}` leads to those before them.',
    }),
    turn: Type.Union([Type.Object({ turn_id: Type.String() }), Type.Null()], {
      description:
        'The answer that is being written, or null; always null to who is not the owner.',
    }),
  },
  example: { ...inSession, messages: [exampleMessage], turn: null },
});

const closed = serverMessage({
  type: 'session.closed',
  description: 'The events of the session come no more.',
  members: { session_id: Type.String() },
  example: ofSession,
});

const repeated = serverMessage({
  type: 'message.repeated',
  description:
    'The message was stored before, under the same name. To see what became of it the session is opened, with the turn for its events.',
  members: {
    session_id: Type.String(),
    client_message_id: Type.String(),
    turn_id: Type.String({
      description: 'Of its answer; of the latest, where it was tried again.',
    }),
  },
  example: { ...named, turn_id: 't-7' },
});

const cancelling = serverMessage({
  type: 'message.cancelling',
  description: 'The answer is being ended; its end follows as an event.',
  members: { session_id: Type.String() },
  example: ofSession,
});

const undone = serverMessage({
  type: 'memory.undone',
  description: 'What the step had changed is as it was before.',
  members: { session_id: Type.String(), step_id: Type.String() },
  example: step,
});

/** What clients may send about conversations, by type. Contract 3, WebSocket; docs/protocol.md. */
export const chatDefinitions = {
  'session.create': clientMessage({
    access: useProfiles,
    description: 'Makes a session and opens it. A profile for admins only needs the role `admin`.',
    members: {
      profile_id: Type.Optional(
        storableText({
          minLength: 1,
          maxLength: 64,
          description: 'The default profile without it.',
        }),
      ),
      name: sessionChanges.properties.name,
    },
    answers: [created],
    example: { name: exampleSession.name },
  }),

  'session.open': clientMessage({
    access: useProfiles,
    description:
      'Opens a session. It needs what `GET /sessions/{id}` needs: to be the owner, an admin, or a holder of `svc.sessions.read_all`. Who opens it again in the middle of an answer says how far they are.',
    members: {
      ...sessionId,
      turn_id: Type.Optional(
        storableText({
          minLength: 1,
          maxLength: 100,
          description: 'The turn whose events came last.',
        }),
      ),
      after: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: MAX_SEQ,
          description: 'The greatest `seq` of it that came.',
        }),
      ),
    },
    answers: [opened],
    example: { ...ofSession, turn_id: 't-7', after: 12 },
  }),

  'session.close': clientMessage({
    access: 'signed-in',
    description: 'Hears no more of a session; it need not be open.',
    members: sessionId,
    answers: [closed],
    example: ofSession,
  }),

  'message.send': clientMessage({
    access: useProfiles,
    description:
      "Says something in one's own session, which begins a turn. Its events come to every socket that has the session open; to this one they repeat the `id`.",
    members: {
      ...sessionId,
      text: Type.String({
        minLength: 1,
        maxLength: MAX_TEXT_LENGTH,
        // Something to read, and nothing that PostgreSQL does not store.
        pattern: '^(?![^]*\\u0000)\\s*\\S',
      }),
      client_message_id: Type.Optional(clientMessageId),
    },
    answers: [repeated, ...Object.values(answerEvents)],
    example: { ...named, text: exampleMessage.content },
  }),

  'message.retry': clientMessage({
    access: useProfiles,
    description:
      "Has the last message of one's own session answered again, whose answer is not complete.",
    members: sessionId,
    answers: Object.values(answerEvents),
    example: ofSession,
  }),

  'message.cancel': clientMessage({
    access: 'signed-in',
    description:
      "Ends the answer that is being written in one's own session; what there is of it is kept.",
    members: sessionId,
    answers: [cancelling],
    example: ofSession,
  }),

  'memory.undo': clientMessage({
    access: { permission: 'svc.memory.read_own' },
    description: "Takes back what a tool changed in one's memory, in one's own session.",
    members: { ...sessionId, step_id: stepId },
    answers: [undone],
    example: step,
  }),
};
