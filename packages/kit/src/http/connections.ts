import { randomUUID } from 'node:crypto';
import { type Server, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, onRequestHookHandler } from 'fastify';
import { logAnswered, type Logger } from '../logging.ts';
import { commonErrors, commonProblem, problemBody } from '../problems.ts';

type ClientError = Error & { code?: string };

const CODES: Readonly<Record<string, keyof typeof commonErrors>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_too_slow',
};

/**
 * Answers bytes that are not HTTP with a problem, and logs that without the parser's message, which may quote the bytes.
 */
export function answerMalformedHttp(error: ClientError, socket: Socket, log: Logger): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  const code = CODES[error.code ?? ''] ?? 'malformed_request';
  const requestId = randomUUID();
  const { status } = commonErrors[code];
  log.info({ request_id: requestId, status, reason: error.code }, 'not a request');
  rejectConnection(socket, code, requestId);
}

/** Writes a problem to a connection, past Fastify, and ends the connection. */
export function rejectConnection(
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

/**
 * How slowly a body may arrive: complete after this time, or by at least this many bytes in each such time. Bodies that
 * are read into memory are smaller, so they have the time once; streamed ones may take longer at half a megabit a second.
 */
export const SLOWEST_BODY = { milliseconds: 120_000, bytes: 8 * 1024 * 1024 };

/**
 * Ends a request whose body is slower than {@link SLOWEST_BODY} with 408. Node's own limit is for a whole request,
 * however large.
 */
export const rejectSlowBody: onRequestHookHandler = (request, reply, done) => {
  const { raw, id } = request;
  const { socket } = raw;
  if (hasBody(raw.headers)) {
    let before = socket.bytesRead;
    const timer = setInterval(() => {
      const received = socket.bytesRead - before;
      before = socket.bytesRead;
      if (raw.complete || received >= SLOWEST_BODY.bytes) return;
      clearInterval(timer);
      // Its answer was sent before the end of the body.
      if (reply.raw.headersSent) {
        socket.destroy();
        return;
      }
      rejectConnection(socket, 'request_too_slow', id);
      logAnswered(request, reply, commonErrors.request_too_slow.status);
    }, SLOWEST_BODY.milliseconds);
    timer.unref();
    raw.once('close', () => clearInterval(timer));
  }
  done();
};

function hasBody(headers: { 'content-length'?: string; 'transfer-encoding'?: string }): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** A connection whose request ended while the server was closing stays open for a next one. */
const IDLE_CHECK_MS = 50;

/** Time for the answers of requests whose work took all of the limit. */
const LAST_ANSWERS_MS = 1000;

type Closable = Pick<FastifyInstance, 'server'>;

/** The work that each server ends before it closes, in this order; and the closing servers. */
const works = new WeakMap<Server, (() => Promise<void>)[]>();
const draining = new WeakSet<Server>();

/** Registers work that ends before the server stops listening, after the work registered earlier. */
export function onDrain({ server }: Closable, end: () => Promise<void>): void {
  works.set(server, [...(works.get(server) ?? []), end]);
}

/** Returns whether a server is closing: it rejects new requests and is not ready. */
export const isDraining = ({ server }: Closable): boolean => draining.has(server);

/** Rejects new requests while the server closes, except those of operators. */
export const rejectWhileDraining: onRequestHookHandler = (request, reply, done) => {
  const { server, routeOptions, raw } = request;
  if (!isDraining(server) || routeOptions.config.operational === true) return done();
  void reply.header('connection', 'close');
  // Node no longer closes the connection of a handshake.
  if (raw.headers.upgrade !== undefined) reply.raw.once('finish', () => raw.socket.destroySoon());
  done(commonProblem('unavailable', { detail: 'This process is ending. Send the request again.' }));
};

/**
 * Closes a server: it rejects new requests, answers health checks until the work of `onDrain` has ended, and waits for
 * the requests in progress.
 * @param timeoutMs The limit for all of that; then connections are cut off.
 */
export async function closeServer(
  app: Pick<FastifyInstance, 'close' | 'server'>,
  timeoutMs: number,
): Promise<void> {
  const { server } = app;
  const deadline = performance.now() + timeoutMs;
  draining.add(server);
  await using closing = new AsyncDisposableStack();
  closing.defer(async () => {
    const leftMs = deadline - performance.now();
    const timer = setTimeout(() => server.closeAllConnections(), Math.max(leftMs, LAST_ANSWERS_MS));
    const idle = setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MS);
    try {
      await app.close();
    } finally {
      clearTimeout(timer);
      clearInterval(idle);
    }
  });
  for (const end of works.get(server) ?? []) await end();
}

/**
 * Returns a signal that is aborted when the client hangs up before the answer is complete. Fastify's `request.signal` is
 * aborted as soon as the body has been read.
 */
export function whenAbandoned({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController();
  // The client may have gone while it was authenticated, and no event follows.
  if (raw.closed) controller.abort();
  raw.once('close', () => {
    if (!raw.writableFinished) controller.abort();
  });
  return controller.signal;
}
