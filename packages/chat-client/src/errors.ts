import type { Problem } from '@oselya/protocol';

const MAX_BACKOFF_MS = 30_000;

type ChatErrorCode =
  /** The assistant responded with `problem`. */
  | 'rejected'
  /** The session cookie is no longer valid (close 4401). */
  | 'signed_out'
  /** Too many messages without permission (close 4403). */
  | 'forbidden'
  /** Too many connections or messages, at the first connection or even after waiting (close 4429 or HTTP 429). */
  | 'too_many'
  /** The message exceeds the frame size limit (close 1009). */
  | 'too_large'
  /** The client could not connect, could not reconnect within its time limit, or must not reconnect (close 1000). */
  | 'unreachable'
  /** The server does not speak this protocol. */
  | 'no_assistant'
  /** The answer is neither running nor stored. */
  | 'answer_lost'
  | 'closed';

/** Error of the chat client. `code` states the reason. */
export class ChatError extends Error {
  override readonly name = 'ChatError';
  readonly code: ChatErrorCode;
  /** Problem that the assistant sent, for the code `rejected`. */
  readonly problem: Problem | undefined;

  constructor(code: ChatErrorCode, message: string, problem?: Problem) {
    super(message);
    this.code = code;
    this.problem = problem;
  }
}

/** Describes a problem in one line: what happened, and what to do. */
export function describeProblem({ title, detail, errors = [] }: Problem): string {
  const advice = errors.map(({ path, message }) => `${path} ${message}`).join('; ') || detail;
  return advice === undefined ? title : `${title}: ${advice}`;
}

/** Creates the error for a frame that violates the protocol. */
export function createProtocolError(violation: string): ChatError {
  return new ChatError('no_assistant', `the server sent ${violation}`);
}

/** Close of a connection. `status` is the HTTP status of a rejected handshake, if known. */
export type ConnectionClose = { code: number; reason: string; status?: number };

/** Returns whether the handshake was rejected with a status that the assistant never sends to this client. */
export const isNoAssistant = ({ status }: ConnectionClose): boolean =>
  status !== undefined && status !== 429 && status < 500;

/** Creates the error for a close after which the client does not reconnect. docs/protocol.md, Close codes. */
export function createCloseError(connectionClose: ConnectionClose): ChatError {
  const { code, reason, status } = connectionClose;
  if (isNoAssistant(connectionClose)) {
    return new ChatError('no_assistant', `the handshake was rejected with HTTP ${status}`);
  }
  switch (code) {
    case 4401:
      return new ChatError('signed_out', 'the sign-in has ended');
    case 4403:
      return new ChatError('forbidden', 'this account may not do that');
    case 4429:
      return new ChatError('too_many', 'too many connections or messages of this account');
    case 1002:
    case 1007:
      return new ChatError('no_assistant', reason || `the connection broke the protocol (${code})`);
    default:
      return new ChatError('unreachable', reason === '' ? describeClose(code) : reason);
  }
}

const CLOSE_REASONS: Readonly<Record<number, string>> = {
  1000: 'the assistant closed it',
  1001: 'the assistant closed it',
  1006: 'the network broke or the assistant is unavailable',
  1009: 'a message was too large',
  1011: 'the assistant failed',
  1012: 'the assistant restarts',
  4429: 'too many connections or messages of this account',
};

/** Returns a human-readable description of a close code. docs/protocol.md, Close codes. */
export function describeClose(code: number): string {
  return CLOSE_REASONS[code] ?? `it was closed with the code ${code}`;
}

/**
 * Returns the delay in milliseconds before a client reconnects after a close; null if it must not reconnect.
 * docs/protocol.md, Close codes.
 * @param attempt Number of attempts since the last open connection, from 0.
 */
export function reconnectDelayMs(code: number, attempt: number): number | null {
  const backoffMs = Math.min(MAX_BACKOFF_MS, 1000 * 2 ** attempt) * (0.5 + Math.random() / 2);
  switch (code) {
    case 1006:
    case 1009:
    case 1011:
      return backoffMs;
    case 1012:
      return attempt === 0 ? Math.random() * 2000 : backoffMs;
    case 4429:
      return 60_000 + Math.random() * 60_000;
    default:
      return null;
  }
}
