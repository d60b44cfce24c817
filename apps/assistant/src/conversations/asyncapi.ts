import { createProblemBody, problemSchema, type Server } from '@oselya/kit';
import {
  clientMessages,
  type ClientType,
  closeStatuses,
  exampleMessage,
  exampleSession,
  MAX_ID_LENGTH,
  type ServerKey,
  serverMessages,
  socketLimits,
} from '@oselya/protocol';
import { type TProperties, Type } from 'typebox';
import type { Access } from '../access/guards.ts';
import { problem } from '../errors.ts';
import { nullable } from '../schema.ts';
import { sharedSchemas } from './schemas.ts';

export const SOCKET_PATH = '/ws';

const CHANNEL_NAME = 'socket';
const clientTypes = Object.keys(clientMessages) as ClientType[];
const serverKeys = Object.keys(serverMessages) as ServerKey[];

/** Schemas that HTTP routes also use, by `$id`. */
const schemasById = new Map<unknown, object>(
  [...sharedSchemas, problemSchema].map((schema) => [Reflect.get(schema, '$id'), schema]),
);

const maxMessageKib = socketLimits.maxMessageBytes / 1024;
const closeCodes: readonly { code: number; reason: string }[] = [
  ...Object.values(closeStatuses),
  // The WebSocket library, not this service, sends this code.
  { code: 1009, reason: `A message is larger than ${maxMessageKib} KiB` },
];

const protocolRules = `\
Frames are JSON texts, those of the client of at most ${maxMessageKib} KiB, each an object with a \`type\`. Only pages of the \
same origin and clients other than browsers may connect. The session cookie of the handshake authenticates; without one \
only \`ping\` is answered.

- A client's message may carry an \`id\` of at most ${MAX_ID_LENGTH} characters or an integer, and every answer to \
it repeats that. Unknown members are errors; optional ones may be null.
- Messages of one socket are handled one after another and answered in order. Permissions are checked for each.
- A client ignores unknown types and members: later versions add some.
- Events have a place in their turn: \`seq\` counts from 1 within \`turn_id\`, without gaps except for joined texts. \
Every socket of the owner that has the session open gets them. A socket that opens the session during an answer gets the earlier events too; with \`turn_id\` and \`after\` it gets those that it lacks, also of an ended answer.
- \`message.completed\` or the event \`error\` ends an answer whatever its number, and may be its only event: after a process has died, numbers continue from the last stored event. Events are kept for a limited time; messages stay.

Close codes:

| code | reason |
| ---- | ------ |
${closeCodes.map(({ code, reason }) => `| \`${code}\` | ${reason} |`).join('\n')}
`;

const exampleValues: Record<string, unknown> = {
  id: '7',
  session_id: exampleSession.session_id,
  turn_id: 't-7',
  seq: 3,
  after: 12,
  name: exampleSession.name,
  session: exampleSession,
  messages: [exampleMessage],
  turn: null,
  client_message_id: 'm-1',
  step_id: '9f4c0a56-1f6e-4f5e-8f57-0a1b2c3d4e5f',
  replaces: '0a4a3f2c-0f6e-4d44-9d0a-6b0f2f0e5b1e',
  text: 'Знайшлося ',
  message: {
    ...exampleMessage,
    id: '0a4a3f2c-0f6e-4d44-9d0a-6b0f2f0e5b1e',
    role: 'assistant',
    content: 'Знайшлося три квартири.',
  },
  unread: [{ session_id: exampleSession.session_id, count: 1 }],
  part: 'sessions',
  problem: createProblemBody(problem('model_unavailable'), '2f1d9c52-6a0e-4a39-9c55-0f6c1f8f5b1e'),
  tool: {
    step_id: '9f4c0a56-1f6e-4f5e-8f57-0a1b2c3d4e5f',
    name: 'remember_fact',
    title: 'Запам’ятовую: район',
  },
};
/** Examples that override {@link exampleValues} for a message. */
const examplesByMessage: Partial<Record<string, object>> = {
  'message.started': { message: exampleMessage },
  'tool.started': {
    tool: {
      ...(exampleValues['tool'] as object),
      input: { category: 'preferences', key: 'district', value: 'Near the park' },
    },
  },
  'tool.finished': {
    tool: {
      ...(exampleValues['tool'] as object),
      status: 'done',
      summary: 'Запам’ятовано',
      changes: [
        { category: 'preferences', key: 'district', value: 'Near the park', previous: null },
      ],
    },
  },
};

/** Registers `GET /asyncapi.json`, which returns the description of the WebSocket protocol. */
export function registerAsyncApi(app: Server, info: AsyncApiInfo): void {
  const document = createAsyncApiDocument(info);
  const options = { config: { access: 'public' }, schema: { hide: true } } as const;
  app.get('/asyncapi.json', options, () => document);
}

type AsyncApiInfo = { version: string; cookieName: string };

/** Creates the AsyncAPI 3.0.0 document of the WebSocket protocol. @see docs/protocol.md */
export function createAsyncApiDocument({ version, cookieName }: AsyncApiInfo): object {
  const messageKeys = [...clientTypes, ...serverKeys];
  const document = {
    asyncapi: '3.0.0',
    info: {
      title: 'Oselya assistant',
      version,
      description: 'Conversations over a WebSocket: messages, and answers as they are written.',
      license: { name: 'MIT' },
    },
    defaultContentType: 'application/json',
    servers: {
      assistant: {
        host: '{host}',
        protocol: 'wss',
        description:
          'The assistant at its public address. The protocol is `ws` if the address is http.',
        variables: { host: { default: 'oselya.example', description: 'The host of BASE_URL.' } },
      },
    },
    channels: {
      [CHANNEL_NAME]: {
        address: SOCKET_PATH,
        title: 'The socket',
        description: protocolRules,
        messages: Object.fromEntries(
          messageKeys.map((key) => [key, { $ref: `#/components/messages/${key}` }]),
        ),
        bindings: { ws: { method: 'GET', bindingVersion: '0.1.0' } },
        'x-close-codes': closeCodes,
      },
    },
    operations: describeOperations(),
    components: {
      messages: Object.fromEntries(messageKeys.map((key) => [key, describeMessage(key)])),
      schemas: Object.fromEntries(schemasById),
      correlationIds: {
        id: {
          description: 'An answer repeats the ID of the message that it answers.',
          location: '$message.payload#/id',
        },
      },
      securitySchemes: {
        session: {
          type: 'httpApiKey',
          in: 'cookie',
          name: cookieName,
          description: 'The session cookie of HTTP, sent in the handshake.',
        },
      },
    },
  };
  return JSON.parse(JSON.stringify(document, toReference));
}

function describeMessage(key: ClientType | ServerKey): object {
  const isServerMessage = Object.hasOwn(serverMessages, key);
  const { description, members } = isServerMessage
    ? serverMessages[key as ServerKey]
    : clientMessages[key as ClientType];
  const type = key.replace(/\.event$/, '');
  const exampleEntries = Object.keys(members)
    .filter((name) => name in exampleValues)
    .map((name) => [name, exampleValues[name]]);
  return {
    name: type,
    title: type,
    description,
    correlationId: { $ref: '#/components/correlationIds/id' },
    payload: isServerMessage
      ? Type.Object({ type: Type.Literal(type), ...members })
      : Type.Object(
          { type: Type.Literal(type), ...allowNulls(members) },
          { additionalProperties: false },
        ),
    examples: [
      { payload: { type, ...Object.fromEntries(exampleEntries), ...examplesByMessage[key] } },
    ],
  };
}

/** Makes optional message members nullable. */
function allowNulls(members: TProperties): TProperties {
  return Object.fromEntries(
    Object.entries(members).map(([name, schema]) => [
      name,
      Type.IsOptional(schema) ? Type.Optional(nullable(schema)) : schema,
    ]),
  );
}

/** Creates the AsyncAPI operations: one for each client message, one for events, and one for malformed messages. */
function describeOperations(): Record<string, object> {
  const channel = { $ref: `#/channels/${CHANNEL_NAME}` };
  const createMessageRef = (key: string) => ({
    $ref: `#/channels/${CHANNEL_NAME}/messages/${key}`,
  });
  const security = [{ $ref: '#/components/securitySchemes/session' }];
  const receiveOperations = clientTypes.map((type) => {
    const { access, answers, description } = clientMessages[type];
    const operation = {
      action: 'receive',
      channel,
      title: type,
      summary: describeAccess(access),
      description,
      ...(access !== 'public' && { security }),
      messages: [createMessageRef(type)],
      reply: { channel, messages: [...answers, 'error'].map(createMessageRef) },
      'x-access': access,
    };
    return [type, operation];
  });
  return {
    ...Object.fromEntries(receiveOperations),
    events: {
      action: 'send',
      channel,
      title: 'Events',
      summary: 'Events of the sessions that a socket has open.',
      messages: serverKeys.filter((key) => serverMessages[key].isEvent).map(createMessageRef),
    },
    malformed: {
      action: 'send',
      channel,
      title: 'Malformed messages',
      summary: 'The answer to any other message.',
      messages: [createMessageRef('error')],
    },
  };
}

function describeAccess(access: Access): string {
  if (access === 'public') return 'No sign-in is needed.';
  if (access === 'signed-in') return 'A sign-in is needed.';
  const [[kind, name] = []] = Object.entries(access);
  return `The ${kind} \`${name}\` is needed.`;
}

/** Replaces shared schemas with references and removes `$id`, as a replacer function for `JSON.stringify`. */
function toReference(this: unknown, key: string, value: unknown): unknown {
  if (key === '$id') return undefined;
  if (key === '$ref' && schemasById.has(value)) return `#/components/schemas/${String(value)}`;
  const id: unknown = typeof value === 'object' && value !== null && Reflect.get(value, '$id');
  // The document must contain each full schema in `components/schemas`.
  if (key === id || !schemasById.has(id)) return value;
  return { $ref: `#/components/schemas/${String(id)}` };
}
