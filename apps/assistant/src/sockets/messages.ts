import { type ProblemBody, problemBody } from '@oselya/kit';
import { Type } from 'typebox';
import { problem } from '../errors.ts';
import { clientMessage, serverMessage } from './definitions.ts';
import { type MessageType, publicMessage } from './message-type.ts';

/** Refers to the schema of problems, which is the one of HTTP. Contract 2. */
export const problemRef = Type.Unsafe<ProblemBody>(Type.Ref('Problem'));

const pong = serverMessage({
  type: 'pong',
  description: 'The connection is alive.',
  members: {},
  example: {},
});

/** What any message may be answered with. */
export const refusal = serverMessage({
  type: 'error',
  description:
    'The message could not be done; the socket stays open. What is no JSON object with a `type` has no `id` to repeat.',
  members: { problem: problemRef },
  example: {
    problem: problemBody(problem('session_not_yours'), '2f1d9c52-6a0e-4a39-9c55-0f6c1f8f5b1e'),
  },
});

/** What clients may send about the connection itself, by type. Contract 3, WebSocket. */
export const connectionDefinitions = {
  ping: clientMessage({
    access: 'public',
    description: 'Asks whether the connection is alive.',
    members: {},
    answers: [pong],
    example: {},
  }),
};

/** The same, as it is handled. */
export const connectionMessages = {
  ping: publicMessage(connectionDefinitions.ping, ({ answer }) => answer({ type: 'pong' })),
} satisfies Record<keyof typeof connectionDefinitions, MessageType>;
