import { WebSocket } from 'ws';

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
