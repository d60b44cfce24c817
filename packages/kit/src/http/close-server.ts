import type { FastifyInstance } from 'fastify';

/** A connection whose request ended while the server was closing is held open for a next one. */
const IDLE_CHECK_MS = 50;

/** Takes no more requests and waits for those in progress, at most so long: then they are cut off. */
export async function closeServer(
  app: Pick<FastifyInstance, 'close' | 'server'>,
  timeoutMs: number,
): Promise<void> {
  const timer = setTimeout(() => app.server.closeAllConnections(), timeoutMs);
  const idle = setInterval(() => app.server.closeIdleConnections(), IDLE_CHECK_MS);
  try {
    await app.close();
  } finally {
    clearTimeout(timer);
    clearInterval(idle);
  }
}
