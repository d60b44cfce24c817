/** What one socket, and all of one process, may use. Contract 3, WebSocket. */
export const socketLimits = {
  /** A larger message closes the socket with 1009. */
  maxMessageBytes: 64 * 1024,
  messagesPerMinute: 240,
  /** Messages in error, unless the error is the service's own. */
  refusalsPerMinute: 20,
  /** Messages that wait for the one before them; 64 KiB each at most. */
  waitingMessages: 32,
  /** What the peer has not read yet when the next message for it is due. */
  maxBufferedBytes: 1024 * 1024,
  /** How old the resolution of a user may be that a message is judged by. */
  userMaxAgeMs: 30_000,
  /** How long after a failed resolution the next one is tried. */
  userRetryMs: 5_000,
  /** How often those users are looked for whose turn has come. */
  sweepIntervalMs: 1_000,
  /** Users that are resolved again at once; messages do not wait for their turn. */
  sweepConcurrency: 8,
  /** Or so much of all of them where that is more: with 5 s for each, all are through in 20 s. */
  sweepShare: 1 / 4,
  /** A peer that answers none of two pings is gone. */
  pingIntervalMs: 30_000,
  /** How long a peer has to answer that a socket is closed. */
  closeTimeoutMs: 5_000,
  /** How long a shutdown waits for that, and for messages in progress. */
  shutdownMs: 2_000,
};

export type SocketLimits = typeof socketLimits;
