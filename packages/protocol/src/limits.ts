/** Maximum length of the text of a message, in UTF-16 code units. */
export const MAX_TEXT_LENGTH = 16_000;

/** Maximum length of an `id` that a client gives a message. */
export const MAX_ID_LENGTH = 128;

/** Number of messages that come with an opened session: the latest. */
export const OPENED_MESSAGES = 100;

/** Reason for the server to close a socket: the code, and a short text for people. */
export type Closing = { code: number; reason: string };

/**
 * Every reason for the server to close a socket; docs/protocol.md says how a client reacts to each. The
 * WebSocket library adds the codes of RFC 6455, such as 1009 for a message that is too large.
 */
export const closings = {
  signedOut: { code: 4401, reason: 'Signed out: sign in before you connect again' },
  forbidden: { code: 4403, reason: 'Too many messages that this user may not send' },
  tooManySockets: { code: 4429, reason: 'Too many connections of this user' },
  tooManyMessages: { code: 4429, reason: 'Too many messages' },
  tooManyErrors: { code: 4429, reason: 'Too many messages in error' },
  tooSlow: { code: 4429, reason: 'Too much is waiting to be read' },
  restarting: { code: 1012, reason: 'The service restarts: connect again' },
  failed: { code: 1011, reason: 'The service failed' },
} as const satisfies Record<string, Closing>;

/** Limits of one socket. */
export const socketLimits = {
  /** A larger message closes the socket with 1009. */
  maxMessageBytes: 64 * 1024,
  messagesPerMinute: 240,
  /** Messages in error per minute; errors of the service itself do not count. */
  errorsPerMinute: 20,
  /** Messages that wait for the one before them, 64 KiB each at most. */
  waitingMessages: 32,
  /** Data that the client has not read when the next message for it is due. */
  maxBufferedBytes: 1024 * 1024,
  /** The server closes a connection that answers none of two pings. */
  pingIntervalMs: 30_000,
};
