import type { Problem } from './problem.ts';

/**
 * Why something could not be done.
 *
 * | code            | meaning                                                              |
 * | --------------- | -------------------------------------------------------------------- |
 * | `refused`       | the assistant answered with `problem`                                |
 * | `signed_out`    | the session cookie is not valid any more (close 4401)                |
 * | `forbidden`     | too many messages that this user may not send (close 4403)           |
 * | `too_many`      | too many connections or messages, for longer than one waits (4429)   |
 * | `too_large`     | the message is larger than a frame may be (close 1009)               |
 * | `unreachable`   | nothing answers, or has not for longer than one waits                |
 * | `no_assistant`  | what answers does not speak this protocol                            |
 * | `answer_lost`   | the answer is neither being written nor stored                       |
 * | `closed`        | the client was closed                                                |
 */
export type ChatErrorCode =
  | 'refused'
  | 'signed_out'
  | 'forbidden'
  | 'too_many'
  | 'too_large'
  | 'unreachable'
  | 'no_assistant'
  | 'answer_lost'
  | 'closed';

/** An error of this client. Match on `code`. */
export class ChatError extends Error {
  override readonly name = 'ChatError';
  readonly code: ChatErrorCode;
  /** What the assistant said, of the code `refused`. */
  readonly problem: Problem | undefined;

  constructor(code: ChatErrorCode, message: string, problem?: Problem) {
    super(message);
    this.code = code;
    this.problem = problem;
  }
}

/** The assistant answered a message with a problem. */
export function refused(problem: Problem): ChatError {
  return new ChatError('refused', problem.detail ?? problem.title, problem);
}

/** How a connection ended: the close code, and the HTTP status of a handshake that was refused. */
export type Closing = { code: number; reason: string; status?: number };

/** What a close that is not followed by another attempt means. docs/protocol.md, Close codes. */
export function closed({ code, reason, status }: Closing): ChatError {
  if (status !== undefined && status !== 429 && status < 500) {
    return new ChatError('no_assistant', `the handshake was refused with HTTP ${status}`);
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

const CLOSES: Readonly<Record<number, string>> = {
  1000: 'the assistant closed it',
  1001: 'the assistant closed it',
  1006: 'the network broke or the assistant is away',
  1009: 'a message was too large',
  1011: 'the assistant failed',
  1012: 'the assistant restarts',
  4429: 'too many connections or messages of this account',
};

/** What a close code means, in words for people. docs/protocol.md, Close codes. */
export function describeClose(code: number): string {
  return CLOSES[code] ?? `it was closed with the code ${code}`;
}
