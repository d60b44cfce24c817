import type { Server } from 'node:http';
import type { FastifyInstance, onRequestHookHandler } from 'fastify';
import { commonProblem } from '../common-errors.ts';

/** A connection whose request ended while the server was closing is held open for a next one. */
const IDLE_CHECK_MS = 50;

/** Requests that waited for work which took all the time still get their answers. */
const LAST_ANSWERS_MS = 1000;

type Closable = Pick<FastifyInstance, 'server'>;

/** What each server ends before it closes, in this order, and the servers that have begun to. */
const works = new WeakMap<Server, (() => Promise<void>)[]>();
const draining = new WeakSet<Server>();

/** Has work end before the server stops listening, after what was named before it. */
export function onDrain({ server }: Closable, end: () => Promise<void>): void {
  works.set(server, [...(works.get(server) ?? []), end]);
}

/** Tells whether a server has begun to close: it takes no more requests, and is not ready. */
export const isDraining = ({ server }: Closable): boolean => draining.has(server);

/** A hook that rejects new requests while the server closes, but for those of operators. */
export const rejectWhileDraining: onRequestHookHandler = (request, reply, done) => {
  const { server, routeOptions, raw } = request;
  if (!isDraining(server) || routeOptions.config.operational === true) return done();
  void reply.header('connection', 'close');
  // The connection of a handshake is not Node's to close any more.
  if (raw.headers.upgrade !== undefined) reply.raw.once('finish', () => raw.socket.destroySoon());
  done(commonProblem('unavailable', { detail: 'This process is ending. Send the request again.' }));
};

/**
 * Closes a server: it takes no more requests, answers its health until the work of `onDrain` has ended, and waits for
 * the requests in progress.
 * @param timeoutMs What all of that gets; then connections are cut off.
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
