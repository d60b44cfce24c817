import { randomUUID } from 'node:crypto';
import { type Server, STATUS_CODES } from 'node:http';
import { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, onRequestHookHandler } from 'fastify';
import { logRawResponse, type Logger } from '../logging.ts';
import { commonErrors, commonProblem, createProblemBody } from '../problems.ts';

type ClientError = Error & { code?: string };

const PROBLEM_CODES: Readonly<Record<string, keyof typeof commonErrors>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_too_slow',
};

/** Responds to malformed or late HTTP with a problem. Does not log the parser's message, which may quote the input. */
export function rejectMalformedHttp(error: ClientError, socket: Socket, log: Logger): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  const code = PROBLEM_CODES[error.code ?? ''] ?? 'malformed_request';
  const requestId = randomUUID();
  const { status } = commonErrors[code];
  log.info({ request_id: requestId, status, reason: error.code }, 'not a request');
  rejectConnection(socket, code, requestId);
}

/** Writes a problem response to a connection, and closes the connection. */
function rejectConnection(
  socket: Socket,
  code: keyof typeof commonErrors,
  requestId: string,
): void {
  if (socket.destroyed) return;
  const problem = commonProblem(code);
  const body = JSON.stringify(createProblemBody(problem, requestId));
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
 * Minimum request body rate, about 0.5 Mbit/s. In each period, an incomplete body must deliver this many bytes.
 * Bodies in memory are smaller, so they must be complete after one period.
 */
export const MIN_BODY_RATE = { milliseconds: 120_000, bytes: 8 * 1024 * 1024 };

/**
 * Rejects a request with 408 if its body is slower than {@link MIN_BODY_RATE}. Replaces Node's request timeout, which
 * does not depend on the body size.
 */
export const rejectSlowBody: onRequestHookHandler = (request, reply, done) => {
  const { raw, id } = request;
  const { socket } = raw;
  // An injected request has no network connection.
  if (socket instanceof Socket && hasBody(raw.headers)) {
    let previousBytes = socket.bytesRead;
    const timer = setInterval(() => {
      const receivedBytes = socket.bytesRead - previousBytes;
      previousBytes = socket.bytesRead;
      if (raw.complete || receivedBytes >= MIN_BODY_RATE.bytes) return;
      clearInterval(timer);
      // The response began before the body was complete, so it cannot become a 408.
      if (reply.raw.headersSent) {
        socket.destroy();
        return;
      }
      rejectConnection(socket, 'request_too_slow', id);
      logRawResponse(request, reply, commonErrors.request_too_slow.status);
    }, MIN_BODY_RATE.milliseconds);
    timer.unref();
    raw.once('close', () => clearInterval(timer));
  }
  done();
};

function hasBody(headers: { 'content-length'?: string; 'transfer-encoding'?: string }): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** Interval for closing idle connections. Requests that end during shutdown leave idle connections. */
const IDLE_CHECK_MS = 50;

/** Minimum time for sending the last responses, even if the time limit has passed. */
const MIN_CLOSE_MS = 1000;

type ServerOwner = Pick<FastifyInstance, 'server'>;

/** Callbacks by server, in execution order. */
const drainCallbacks = new WeakMap<Server, (() => Promise<void>)[]>();
const drainingServers = new WeakSet<Server>();

/** Registers a callback that runs before the server stops listening. Callbacks run in registration order. */
export function onDrain({ server }: ServerOwner, callback: () => Promise<void>): void {
  drainCallbacks.set(server, [...(drainCallbacks.get(server) ?? []), callback]);
}

/** Returns whether a server is closing. */
export function isDraining({ server }: ServerOwner): boolean {
  return drainingServers.has(server);
}

/** Rejects new requests while the server closes, except operational ones such as health checks. */
export const rejectWhileDraining: onRequestHookHandler = (request, reply, done) => {
  const { server, routeOptions, raw } = request;
  if (!isDraining(server) || routeOptions.config.operational === true) return done();
  void reply.header('connection', 'close');
  // Node does not close the connection of an upgrade request.
  if (raw.headers.upgrade !== undefined) reply.raw.once('finish', () => raw.socket.destroySoon());
  done(commonProblem('unavailable', { detail: 'This process is ending. Send the request again.' }));
};

/**
 * Closes a server: rejects new requests except operational ones, runs the `onDrain` callbacks, and waits for requests
 * in progress. Closes open connections after the time limit, or one second after the callbacks if that is later.
 */
export async function closeServer(
  app: Pick<FastifyInstance, 'close' | 'server'>,
  timeoutMs: number,
): Promise<void> {
  const { server } = app;
  const deadline = performance.now() + timeoutMs;
  drainingServers.add(server);
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(async () => {
    const remainingMs = deadline - performance.now();
    const forceCloseTimer = setTimeout(
      () => server.closeAllConnections(),
      Math.max(remainingMs, MIN_CLOSE_MS),
    );
    const idleTimer = setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MS);
    try {
      await app.close();
    } finally {
      clearTimeout(forceCloseTimer);
      clearInterval(idleTimer);
    }
  });
  for (const callback of drainCallbacks.get(server) ?? []) await callback();
}

/**
 * Creates a signal that is aborted when the client disconnects before the response is complete. Fastify's
 * `request.signal` is aborted too early: as soon as the body has been read.
 */
export function createDisconnectSignal({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController();
  // The client may have disconnected earlier, for example during authentication. Then no event follows.
  if (raw.closed) controller.abort();
  raw.once('close', () => {
    if (!raw.writableFinished) controller.abort();
  });
  return controller.signal;
}
