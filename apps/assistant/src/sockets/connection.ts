import type { RawData, WebSocket } from 'ws';
import { type Closing, closingAfter, closings } from './closings.ts';
import { perMinute } from '../limits.ts';
import type { MessageId, ServerFrame } from './frames.ts';
import type { SocketLimits } from './limits.ts';

/** One open socket, with its limits. */
export type Connection = {
  /** Sends a message, unless the socket is closing; a peer that does not read is closed instead. */
  send(frame: ServerFrame & { id?: MessageId | undefined }): void;
  /** Begins to close the socket, unless that has begun. */
  close(closing: Closing): void;
  /** Ends a socket whose peer does not take part in closing it. */
  terminate(): void;
  /** Sends a ping, or ends the socket where the last two had no answer. */
  heartbeat(): void;
  isOpen(): boolean;
  /** Ends when the socket is closed and no message of it is in progress. */
  ended(): Promise<void>;
};

/**
 * Takes an open socket. Its messages are handled one after the other, in the order in which they came.
 * @param receive Handles a message, and gives the HTTP status of the error it was answered with, if any.
 */
export function createConnection(
  socket: WebSocket,
  {
    limits,
    receive,
  }: {
    limits: SocketLimits;
    receive: (data: RawData, isBinary: boolean) => Promise<number | undefined>;
  },
): Connection {
  const spendMessage = perMinute(limits.messagesPerMinute);
  const spendRefusal = perMinute(limits.refusalsPerMinute);
  let waiting = 0;
  let work = Promise.resolve();
  let unanswered = 0;
  /** A frame that alone is larger than what may wait, until all of it is on its way. */
  let large: { bytes: number; sent: Promise<void> } | undefined;
  const closed = new Promise<void>((resolve) => {
    socket.once('close', () => resolve());
  });

  const isOpen = () => socket.readyState === socket.OPEN;

  function close({ code, reason }: Closing): void {
    if (isOpen()) socket.close(code, reason);
  }

  socket.on('message', (data: RawData, isBinary: boolean) => {
    // What comes after the socket began to close is read by nobody.
    if (!isOpen()) return;
    if (!spendMessage() || waiting === limits.waitingMessages) {
      return close(closings.tooManyMessages);
    }
    waiting += 1;
    work = work.then(() => take(data, isBinary));
  });

  async function take(data: RawData, isBinary: boolean): Promise<void> {
    waiting -= 1;
    // Its answer may be as large. A socket that closes ends this too; a race with `closed` would leave
    // something with that promise for every message.
    if (large !== undefined) await large.sent;
    if (!isOpen()) return;
    const status = await receive(data, isBinary);
    if (status === undefined || status >= 500) return;
    if (!spendRefusal()) close(closingAfter(status));
  }

  /** What follows, such as the events of an answer, comes before anybody could have read such a frame. */
  function sendLarge(text: string, bytes: number): void {
    if (large !== undefined) return close(closings.tooSlow);
    const { promise: sent, resolve } = Promise.withResolvers<void>();
    large = { bytes, sent };
    socket.send(text, () => {
      large = undefined;
      resolve();
    });
  }

  socket.on('pong', () => {
    unanswered = 0;
  });

  return {
    send(frame) {
      if (!isOpen()) return;
      if (socket.bufferedAmount > limits.maxBufferedBytes + (large?.bytes ?? 0)) {
        return close(closings.tooSlow);
      }
      const text = JSON.stringify(frame);
      const bytes = mostBytes(text) > limits.maxBufferedBytes ? Buffer.byteLength(text) : 0;
      if (bytes > limits.maxBufferedBytes) sendLarge(text, bytes);
      else socket.send(text);
    },
    close,
    terminate: () => socket.terminate(),
    heartbeat() {
      if (unanswered === 2) return socket.terminate();
      unanswered += 1;
      if (isOpen()) socket.ping();
    },
    isOpen,
    async ended() {
      await closed;
      await work;
    },
  };
}

/** How many bytes a text has at most as UTF-8, without looking at it. */
const mostBytes = ({ length }: string): number => 3 * length;
