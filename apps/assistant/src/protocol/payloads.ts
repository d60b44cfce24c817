import { type TObject, type TProperties, type TSchema, Type } from 'typebox';
import { eventPlace } from '../chat/events.ts';
import { nullable } from '../schema.ts';
import type { ClientMessage, ServerMessage } from '../sockets/definitions.ts';
import { messageId } from '../sockets/frames.ts';

/** What a client may send: members that are not named are errors, and what may be left out may be null. */
export function clientPayload(type: string, { members }: ClientMessage): TObject {
  const loose = Object.entries({ id: Type.Optional(messageId), ...members }).map(
    ([name, schema]) => [name, Type.IsOptional(schema) ? orNull(schema) : schema],
  );
  const properties: TProperties = { type: Type.Literal(type), ...Object.fromEntries(loose) };
  return Type.Object(properties, { additionalProperties: false });
}

const orNull = (schema: TSchema) => Type.Optional(nullable(schema));

type Told = Pick<ServerMessage, 'type' | 'members'>;

/** What the server sends. Later versions may add members. */
export const payloadOf = ({ type, members }: Told): TObject =>
  Type.Object({ type: Type.Literal(type), ...members });

/** What the server answers. */
export const answerPayload = ({ type, members }: Told): TObject =>
  payloadOf({ type, members: { id: Type.Optional(messageId), ...members } });

/** What the server tells of a turn, which repeats the `id` on the socket that began it. */
export const eventPayload = ({ type, members }: Told): TObject =>
  answerPayload({ type, members: { ...eventPlace, ...members } });
