import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { commonErrors, commonProblem } from '../common-errors.ts';
import type { Logger } from '../logging.ts';
import { problemBody } from './problem-body.ts';

type ClientError = Error & { code?: string };

const CODES: Readonly<Record<string, keyof typeof commonErrors>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_too_slow',
};

/**
 * Answers what is no HTTP, and so never becomes a request: as a problem, like every other error, with a line in the
 * log. What was sent is not in it: a message of the parser's may quote it, its code does not.
 */
export function answerMalformedHttp(error: ClientError, socket: Socket, log: Logger): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  const code = CODES[error.code ?? ''] ?? 'malformed_request';
  const requestId = randomUUID();
  const { status } = commonErrors[code];
  log.info({ request_id: requestId, status, reason: error.code }, 'not a request');
  refuseConnection(socket, code, requestId);
}

/** Answers a problem past all that would answer a request otherwise, and ends the connection. */
export function refuseConnection(
  socket: Socket,
  code: keyof typeof commonErrors,
  requestId: string,
): void {
  if (socket.destroyed) return;
  const problem = commonProblem(code);
  const body = JSON.stringify(problemBody(problem, requestId));
  if (socket.writable) {
    socket.write(
      `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n` +
        'connection: close\r\ncontent-type: application/problem+json\r\n' +
        `x-request-id: ${requestId}\r\n` +
        `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
  }
  socket.destroySoon();
}
