/** Why the server closes a socket: the code, and a short reason for people who look. */
export type Closing = { code: number; reason: string };

/**
 * Every way in which the server closes a socket by itself; docs/protocol.md says what a client does
 * about each. The WebSocket library adds those of RFC 6455, such as 1009 for a message that is too
 * large. Contract 3, WebSocket.
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

/**
 * How a socket is closed after too many refusals, by the HTTP status of the last: a client that does not
 * heed "not signed in" or "not allowed" is told so for good.
 */
export function closingAfter(status: number): Closing {
  if (status === 401) return closings.signedOut;
  if (status === 403) return closings.forbidden;
  return closings.tooManyErrors;
}
