import type { FastifyReply, FastifyRequest } from 'fastify';

const RETRY_AFTER_SECONDS = 5;

/**
 * A hook that says in `Retry-After` when to come again, in every 429 and 503 that does not say it
 * itself. Contract 2.
 */
export function nameRetryTime(
  _request: FastifyRequest,
  reply: FastifyReply,
  _payload: unknown,
  done: () => void,
): void {
  const isForNow = reply.statusCode === 429 || reply.statusCode === 503;
  if (isForNow && !reply.hasHeader('retry-after')) {
    void reply.header('retry-after', RETRY_AFTER_SECONDS);
  }
  done();
}
