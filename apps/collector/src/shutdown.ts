import type { FastifyInstance } from 'fastify';

export type Close = () => Promise<void>;

/**
 * Begins to close everything at once, and waits for all of it even where some of it fails.
 * @throws What the first of those that failed threw.
 */
export async function closeTogether(parts: readonly Close[]): Promise<void> {
  const results = await Promise.allSettled(parts.map((close) => close()));
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}

/** Takes no more requests and waits for those in progress, at most so long: then they are cut off. */
export async function closeServer(
  app: Pick<FastifyInstance, 'close' | 'server'>,
  timeoutMs: number,
): Promise<void> {
  const timer = setTimeout(() => app.server.closeAllConnections(), timeoutMs);
  try {
    await app.close();
  } finally {
    clearTimeout(timer);
  }
}
