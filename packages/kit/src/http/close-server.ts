import type { Server } from 'node:http';
import type { FastifyInstance, onRequestHookHandler } from 'fastify';
import { commonProblem } from '../common-errors.ts';

/** A connection whose request ended while the server was closing is held open for a next one. */
const IDLE_CHECK_MS = 50;

/** Requests still get their answers when the work that they waited for took all the time. */
const LAST_ANSWERS_MS = 1000;

type Closable = Pick<FastifyInstance, 'server'>;

/** The work that each server ends before it closes, in this order; and the servers that are closing. */
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
