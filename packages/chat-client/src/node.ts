import { serverMessages } from '@oselya/protocol';
import { type TSchema, Type } from 'typebox';
import { Value } from 'typebox/value';
import { WebSocket } from 'ws';
import type { FrameCheck } from './frames.ts';

const HANDSHAKE_MS = 15_000;

/** Maximum size of a frame. `session.opened` contains up to 100 messages. */
const MAX_FRAME_BYTES = 16 * 1024 * 1024;

/** Creates a function that opens WebSockets with a session cookie, which browsers add themselves. */
export function createCookieSocketOpener({ name, value }: { name: string; value: string }) {
  return (url: string): WebSocket =>
    new WebSocket(url, {
      headers: { cookie: `${name}=${value}` },
      handshakeTimeout: HANDSHAKE_MS,
      maxPayload: MAX_FRAME_BYTES,
      perMessageDeflate: false,
    });
}

const schemasByKey = new Map<string, TSchema>(
  Object.entries(serverMessages).map(([key, { members }]) => [key, Type.Object(members)]),
);
schemasByKey.set(
  'other',
  Type.Object({
    session_id: Type.String(),
    turn_id: Type.String(),
    seq: Type.Integer({ minimum: 1 }),
  }),
);

/** Checks a frame against the schemas of the protocol. */
export const checkFrame: FrameCheck = (key, frame) => {
  const schema = schemasByKey.get(key);
  return schema !== undefined && Value.Check(schema, frame);
};
