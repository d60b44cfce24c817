import { WebSocket } from 'ws';
import { ChatError, type Closing } from './errors.ts';
import { type Frame, readFrame } from './frames.ts';

/** The most that a handshake takes. */
const HANDSHAKE_MS = 15_000;

/** The server pings every 30 s (docs/protocol.md, Limits): after two that did not come nobody is there. */
const SILENCE_MS = 75_000;

/** Of the time after which a silent server is told of, how much passes before it is pinged. */
const PING_AT = 1 / 3;

/** The most that one message of the server holds: a session comes with its latest 100 messages. */
const MAX_FRAME_BYTES = 16 * 1024 * 1024;

/** The client could not go on with what it got. RFC 6455 §7.4.1. */
const PROTOCOL_ERROR = 1002;

type ConnectionOptions = {
  /** Of the assistant, by http or https. */
  url: string;
  cookie: { name: string; value: string };
  /** How long a server that is waited for may be silent before `onQuiet`. */
  quietMs: number;
  /** Whether anything is waited for: an answer to a message, or the rest of one. */
  isAwaited: () => boolean;
  /** The server was silent, though it was pinged; or the handshake takes long. It may still answer. */
  onQuiet: () => void;
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
export function connect({ url, cookie, quietMs, isAwaited, ...on }: ConnectionOptions): Connection {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/ws`, {
    headers: { cookie: `${cookie.name}=${cookie.value}` },
    handshakeTimeout: HANDSHAKE_MS,
    maxPayload: MAX_FRAME_BYTES,
    perMessageDeflate: false,
  });
  let refusal: { reason: string; status?: number } | undefined;
  const silence = setTimeout(() => socket.terminate(), SILENCE_MS);
  let quiet: NodeJS.Timeout | undefined = setTimeout(on.onQuiet, quietMs);

  /** From the last sign of the server on: a ping after a third of the time, and its end after the rest. */
  function watch(): void {
    quiet = setTimeout(() => {
      socket.ping();
      quiet = setTimeout(on.onQuiet, quietMs * (1 - PING_AT));
    }, quietMs * PING_AT);
  }

  const heard = () => {
    silence.refresh();
    on.onHeard();
  };

  /** After what was heard has been acted on, which may be all that was waited for. */
  function watchAgain(): void {
    clearTimeout(quiet);
    quiet = undefined;
    if (isAwaited()) watch();
  }

  socket.on('open', () => {
    clearTimeout(quiet);
    quiet = undefined;
    on.onOpen();
  });
  for (const sign of ['ping', 'pong']) {
    socket.on(sign, () => {
      heard();
      watchAgain();
    });
  }
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
    watchAgain();
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
    clearTimeout(quiet);
    on.onClose({ code: refusal?.status === 429 ? 4429 : code, reason: String(reason), ...refusal });
  });

  return {
    send: (message) => {
      // What is sent too late is answered by the close, which is on its way.
      if (socket.readyState !== WebSocket.OPEN) return;
      socket.send(JSON.stringify(message));
      if (quiet === undefined) watch();
    },
    close: () => socket.close(1000),
  };
}
