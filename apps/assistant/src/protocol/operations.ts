import type { Access } from '../access/guards.ts';
import { refusal } from '../sockets/messages.ts';
import { clientMessages, events, keyOf } from './messages.ts';

/** The only channel of the document. */
export const CHANNEL = 'socket';

const channel = { $ref: `#/channels/${CHANNEL}` };
const messageOf = (key: string) => ({ $ref: `#/channels/${CHANNEL}/messages/${key}` });

/** What is received, with its answers, and what is sent without being asked. AsyncAPI 3.0.0, Operation Object. */
export function describeOperations(): Record<string, object> {
  const received = Object.entries(clientMessages).map(
    ([type, { access, answers, description }]) => [
      type,
      {
        action: 'receive',
        channel,
        title: type,
        summary: who(access),
        description,
        ...(access !== 'public' && {
          security: [{ $ref: '#/components/securitySchemes/session' }],
        }),
        messages: [messageOf(type)],
        reply: {
          channel,
          messages: [...answers, refusal].map((answer) => messageOf(keyOf(answer))),
        },
        'x-access': access,
      },
    ],
  );
  return {
    ...Object.fromEntries(received),
    events: {
      action: 'send',
      channel,
      title: 'Events',
      summary: 'What happens in the sessions that a socket has open.',
      messages: events.map(({ key }) => messageOf(key)),
    },
    malformed: {
      action: 'send',
      channel,
      title: 'Malformed messages',
      summary: 'The answer to what is none of the messages.',
      messages: [messageOf(keyOf(refusal))],
    },
  };
}

/** Who may send a message, for people. */
function who(access: Access): string {
  if (access === 'public') return 'Anybody may send it.';
  if (access === 'signed-in') return 'Who is signed in may send it.';
  if ('role' in access) return `It needs the role \`${access.role}\`.`;
  return `It needs the permission \`${access.permission}\`.`;
}
