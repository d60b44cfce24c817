import { WebSocket } from 'ws';
import { ChatError, type Closing } from './errors.ts';
import { type Frame, readFrame } from './frames.ts';

/** The most that a handshake takes. */
const HANDSHAKE_MS = 15_000;

/** The server pings every 30 s (docs/protocol.md, Limits): after two that did not come nobody is there. */
const SILENCE_MS = 75_000;

/** The most that one message of the server holds: a session comes with its latest 100 messages. */
const MAX_FRAME_BYTES = 16 * 1024 * 1024;

/** The client could not go on with what it got. RFC 6455 §7.4.1. */
const PROTOCOL_ERROR = 1002;

type ConnectionOptions = {
  /** Of the assistant, by http or https. */
  url: string;
  cookie: { name: string; value: string };
  onOpen: () => void;
  /** Comes with whatever the server sends, its pings as well, before `onFrame`. */
  onHeard: () => void;
  onFrame: (frame: Frame) => void;
  /** Comes once, whatever became of the connection. */
  onClose: (closing: Closing) => void;
};

/** One connection. */
export type Connection = {
  /** Sends a message; on a connection that is not open it is lost, as `onClose` tells. */
  send: (message: object) => void;
  close: () => void;
};

/** Connects once. What fails is told by `onClose`. */
export function connect({ url, cookie, ...on }: ConnectionOptions): Connection {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/ws`, {
    headers: { cookie: `${cookie.name}=${cookie.value}` },
    handshakeTimeout: HANDSHAKE_MS,
    maxPayload: MAX_FRAME_BYTES,
    perMessageDeflate: false,
  });
  let refusal: { reason: string; status?: number } | undefined;
  const silence = setTimeout(() => socket.terminate(), SILENCE_MS);
  const heard = () => {
    silence.refresh();
    on.onHeard();
  };

  socket.on('open', on.onOpen);
  socket.on('ping', heard);
  socket.on('message', (data) => {
    heard();
    try {
      // The library gives a Buffer unless it is told otherwise.
      const frame = readFrame((data as Buffer).toString());
      if (frame !== undefined) on.onFrame(frame);
    } catch (error) {
      if (!(error instanceof ChatError)) throw error;
      refusal = { reason: error.message };
      socket.close(PROTOCOL_ERROR);
    }
  });
  socket.on('unexpected-response', (request, { statusCode = 0 }) => {
    refusal = { reason: `HTTP ${statusCode}`, status: statusCode };
    request.destroy();
    socket.terminate();
  });
  socket.on('error', (error: NodeJS.ErrnoException) => {
    refusal ??= { reason: error.code ?? error.message };
  });
  socket.on('close', (code, reason) => {
    clearTimeout(silence);
    on.onClose({ code: refusal?.status === 429 ? 4429 : code, reason: String(reason), ...refusal });
  });

  return {
    send: (message) => {
      // What is sent too late is answered by the close, which is on its way.
      if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
    },
    close: () => socket.close(1000),
  };
}
