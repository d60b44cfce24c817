import { problemSchema } from '@oselya/kit';
import { sharedSchemas } from '../sessions/index.ts';
import { SOCKET_PATH } from '../sockets/handshake.ts';
import { answers, type DescribedMessage, events, sent } from './messages.ts';
import { CHANNEL, describeOperations } from './operations.ts';
import { closeCodes, rules } from './rules.ts';

const messages = [...sent, ...answers, ...events];
/** The schemas that HTTP's routes refer to by an id, by that. */
const schemas = new Map<unknown, object>(
  [...sharedSchemas, problemSchema].map((schema) => [Reflect.get(schema, '$id'), schema]),
);

/**
 * The WebSocket protocol as an AsyncAPI document, from the definitions that the code is typed by and that the
 * messages of clients are held against. AsyncAPI 3.0.0; docs/protocol.md is the same in prose.
 * @param described.cookieName Of the session cookie.
 */
export function protocolDocument(described: { version: string; cookieName: string }): object {
  const document = {
    asyncapi: '3.0.0',
    info: {
      title: 'Oselya assistant',
      version: described.version,
      description: 'Conversations over a WebSocket: messages, and answers as they are written.',
      license: { name: 'MIT' },
    },
    defaultContentType: 'application/json',
    servers: {
      assistant: {
        host: '{host}',
        protocol: 'wss',
        description: 'The assistant at its public address; `ws` where that is http.',
        variables: { host: { default: 'oselya.example', description: 'Of BASE_URL.' } },
      },
    },
    channels: {
      [CHANNEL]: {
        address: SOCKET_PATH,
        title: 'The socket',
        description: rules,
        messages: byKey(({ key }) => ({ $ref: `#/components/messages/${key}` })),
        bindings: { ws: { method: 'GET', bindingVersion: '0.1.0' } },
        'x-close-codes': closeCodes,
      },
    },
    operations: describeOperations(),
    components: {
      messages: byKey(({ type, description, payload, example }) => ({
        name: type,
        title: type,
        description,
        correlationId: { $ref: '#/components/correlationIds/id' },
        payload,
        examples: [{ payload: example }],
      })),
      schemas: Object.fromEntries(schemas),
      correlationIds: {
        id: {
          description: 'What an answer repeats of the message that it answers.',
          location: '$message.payload#/id',
        },
      },
      securitySchemes: {
        session: {
          type: 'httpApiKey',
          in: 'cookie',
          name: described.cookieName,
          description: 'The session cookie of the handshake, which is the one of HTTP.',
        },
      },
    },
  };
  return JSON.parse(JSON.stringify(document, local));
}

const byKey = (describe: (message: DescribedMessage) => object) =>
  Object.fromEntries(messages.map((message) => [message.key, describe(message)]));

/** Has schemas be found by their place in the document instead of by their ids. */
function local(key: string, value: unknown): unknown {
  if (!schemas.has(value)) return value;
  if (key === '$id') return undefined;
  return key === '$ref' ? `#/components/schemas/${String(value)}` : value;
}
