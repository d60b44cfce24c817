import type { Socket } from 'node:net';
import { randomUUID } from 'node:crypto';

type ClientError = Error & { code?: string };

const ANSWERS: Record<string, readonly [status: number, phrase: string, detail: string]> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large', 'Send fewer or shorter headers.'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout', 'Send the whole request sooner.'],
};
const MALFORMED = [400, 'Bad Request', 'Send well-formed HTTP.'] as const;

/** Answers what is no HTTP, and so never becomes a request: as a problem, like every other error. */
export function answerMalformedHttp(error: ClientError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  const [status, phrase, detail] = ANSWERS[error.code ?? ''] ?? MALFORMED;
  const body = JSON.stringify({
    type: 'urn:oselya:error:malformed_request',
    title: 'Malformed request',
    status,
    detail,
    code: 'malformed_request',
    request_id: randomUUID(),
  });
  if (socket.writable) {
    socket.write(
      `HTTP/1.1 ${status} ${phrase}\r\nconnection: close\r\ncontent-type: application/problem+json\r\n` +
        `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
  }
  socket.destroySoon();
}
