import { Type } from 'typebox';
import { storableText } from '../schema.ts';
import {
  MESSAGES_PAGE,
  presentMessage,
  presentSession,
  sessionChanges,
  sessionParams,
} from '../sessions/schemas.ts';
import type { Sessions } from '../sessions/service.ts';
import { type MessageTypes, publicMessage, userMessage } from './message-type.ts';

/** Opening a session, a new one or one that is there. Contract 3, Answers. */
const useProfiles = { permission: 'svc.profiles.use' } as const;

/** Every type of message that clients may send. Contract 3, WebSocket. */
export function createMessageTypes(sessions: Pick<Sessions, 'createSession' | 'openConversation'>) {
  return {
    ping: publicMessage({}, ({ answer }) => answer({ type: 'pong' })),

    'session.create': userMessage(
      useProfiles,
      {
        profile_id: Type.Optional(storableText({ minLength: 1, maxLength: 64 })),
        name: sessionChanges.properties.name,
      },
      async ({ message: { profile_id: profileId, name }, user, answer }) => {
        const session = await sessions.createSession(user, { profileId, name });
        answer({
          type: 'session.created',
          session_id: session.session_id,
          session: presentSession(session),
        });
      },
    ),

    'session.open': userMessage(
      useProfiles,
      { session_id: sessionParams.properties.id },
      async ({ message: { session_id: sessionId }, user, answer }) => {
        const page = { sessionId, limit: MESSAGES_PAGE.limit };
        const { session, messages } = await sessions.openConversation(user, page);
        answer({
          type: 'session.opened',
          session_id: session.session_id,
          session: presentSession(session),
          messages: messages.toReversed().map(presentMessage),
        });
      },
    ),
  } satisfies MessageTypes;
}
