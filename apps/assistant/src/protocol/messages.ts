import type { TSchema } from 'typebox';
import { chatDefinitions } from '../chat/client-messages.ts';
import { answerEvents, ownEvents, sessionEvents } from '../chat/events.ts';
import type { ClientMessage, ServerMessage } from '../sockets/definitions.ts';
import { connectionDefinitions, refusal } from '../sockets/messages.ts';
import { answerPayload, clientPayload, eventPayload, payloadOf } from './payloads.ts';

/** Whatever clients may send, by type. */
export const clientMessages: Readonly<Record<string, ClientMessage>> = {
  ...connectionDefinitions,
  ...chatDefinitions,
};

/** What turns consist of, the events in about their order. */
const turns: readonly Readonly<Record<string, ServerMessage>>[] = [answerEvents, ownEvents];

/** A message as the document has it. */
export type DescribedMessage = {
  /** Of the document; the type, but for an event whose type an answer has as well. */
  key: string;
  type: string;
  description: string;
  payload: TSchema;
  example: object;
};

/** The messages that clients send. */
export const sent: readonly DescribedMessage[] = Object.entries(clientMessages).map(
  ([type, message]) => ({
    key: type,
    type,
    description: message.description,
    payload: clientPayload(type, message),
    example: { type, id: '7', ...message.example },
  }),
);

const eventDefinitions = new Set<ServerMessage>(
  [...turns, sessionEvents].flatMap((events) => Object.values(events)),
);
const answerDefinitions = new Set(
  [...Object.values(clientMessages).flatMap(({ answers }) => answers), refusal].filter(
    (message) => !eventDefinitions.has(message),
  ),
);
const answerTypes = new Set(Array.from(answerDefinitions, ({ type }) => type));

/** The key of a message of the server. */
export const keyOf = (message: ServerMessage): string =>
  eventDefinitions.has(message) && answerTypes.has(message.type)
    ? `${message.type}.event`
    : message.type;

/** The messages that answer one of a client, and belong to no turn. */
export const answers: readonly DescribedMessage[] = Array.from(answerDefinitions, (message) => ({
  key: keyOf(message),
  type: message.type,
  description: message.description,
  payload: answerPayload(message),
  example: { type: message.type, id: '7', ...message.example },
}));

const turnEvents: readonly DescribedMessage[] = turns.flatMap((turn) =>
  Object.values(turn).map((message, index) => ({
    key: keyOf(message),
    type: message.type,
    description: message.description,
    payload: eventPayload(message),
    example: {
      type: message.type,
      session_id: '0d2b7a3e-5a5c-4a8e-9a55-3f1f2f6f7c10',
      turn_id: 't-7',
      seq: index + 1,
      ...message.example,
    },
  })),
);

/** The messages that tell what happens in sessions: in their turns, and beside them. */
export const events: readonly DescribedMessage[] = [
  ...turnEvents,
  ...Object.values(sessionEvents).map((message) => ({
    key: keyOf(message),
    type: message.type,
    description: message.description,
    payload: payloadOf(message),
    example: { type: message.type, ...message.example },
  })),
];
