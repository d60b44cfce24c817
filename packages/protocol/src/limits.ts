/** Maximum length of a message text, in Unicode code points. */
export const MAX_MESSAGE_LENGTH = 16_000;

/** Maximum length of a message `id` that is a string, in Unicode code points. */
export const MAX_ID_LENGTH = 128;

/** Maximum number of messages in `session.opened`. */
export const MAX_OPENED_MESSAGES = 100;

/** Close code with a short, human-readable reason. */
export type CloseStatus = { code: number; reason: string };

/**
 * Close statuses that the server sends. docs/protocol.md describes how clients react. The WebSocket library also sends
 * codes from RFC 6455, such as 1009 for a message that is too large.
 */
export const closeStatuses = {
  signedOut: { code: 4401, reason: 'Signed out: sign in before you connect again' },
  forbidden: { code: 4403, reason: 'Too many messages that this user may not send' },
  tooManySockets: { code: 4429, reason: 'Too many connections of this user' },
  tooManyMessages: { code: 4429, reason: 'Too many messages' },
  tooManyErrors: { code: 4429, reason: 'Too many messages in error' },
  tooSlow: { code: 4429, reason: 'Too much unread data' },
  restarting: { code: 1012, reason: 'The service restarts: connect again' },
  failed: { code: 1011, reason: 'The service failed' },
} as const satisfies Record<string, CloseStatus>;

/** Limits per socket. */
export const socketLimits = {
  /** Maximum size of a client message. A larger message closes the socket with code 1009. */
  maxMessageBytes: 64 * 1024,
  messagesPerMinute: 240,
  /** Maximum number of failed messages per minute. Server errors do not count. */
  errorsPerMinute: 20,
  /** Maximum number of received messages that wait to be handled. */
  maxQueuedMessages: 32,
  /** Maximum amount of unsent data in the send buffer. A single larger frame is sent nevertheless. */
  maxBufferedBytes: 1024 * 1024,
  /** Ping interval. A connection that leaves two pings in a row unanswered is terminated. */
  pingIntervalMs: 30_000,
};
