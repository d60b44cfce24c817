import { type Static, Type } from 'typebox';
import type { RawData } from 'ws';
import { problem } from '../errors.ts';

/** The longest `id` that a client may give a message, for its answers to repeat. */
export const MAX_ID_LENGTH = 128;

/** What a client may name a message by: a text, or a whole number. */
export const messageId = Type.Union([
  Type.String({ maxLength: MAX_ID_LENGTH }),
  Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
]);

/** See {@link messageId}. */
export type MessageId = Static<typeof messageId>;

/** A message of a client, of which nothing is known yet but that it names its type. */
export type ClientFrame = Readonly<Record<string, unknown>> & { readonly type: string };

/** A message for a client, of whichever definition: its type, and what belongs to it. docs/protocol.md lists them. */
export type ServerFrame = Readonly<Record<string, unknown>> & { readonly type: string };

/**
 * Reads a message of a client.
 * @throws ProblemError `malformed_message` for everything but a JSON object with a `type`, in a text frame.
 */
export function readFrame(data: RawData, isBinary: boolean): ClientFrame {
  if (isBinary || !Buffer.isBuffer(data)) {
    throw problem('malformed_message', { detail: 'Send text frames, not binary ones.' });
  }
  let value: unknown;
  try {
    value = JSON.parse(data.toString());
  } catch (cause) {
    throw problem('malformed_message', { detail: 'The message is not well-formed JSON.', cause });
  }
  if (!isFrame(value)) {
    throw problem('malformed_message', {
      detail: 'The message must be a JSON object with a text as its `type`.',
    });
  }
  return value;
}

/** An own member, which is all that JSON makes. */
function isFrame(value: unknown): value is ClientFrame {
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.hasOwn(value, 'type') &&
    typeof Reflect.get(value, 'type') === 'string'
  );
}

/** The id of a message, for its answers; nothing where it has none that is valid. */
export function idOf({ id }: ClientFrame): MessageId | undefined {
  if (typeof id === 'number') return Number.isSafeInteger(id) ? id : undefined;
  return typeof id === 'string' && id.length <= MAX_ID_LENGTH ? id : undefined;
}
