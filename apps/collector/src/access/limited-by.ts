import { clientNetwork, type RateLimit } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Whom a request is counted to: the id of its API key, or the client's network without one. */
export function callerOf({ apiKey, ip }: Pick<FastifyRequest, 'apiKey' | 'ip'>): string {
  return apiKey?.id ?? clientNetwork(ip);
}

/**
 * The hook of a route that counts each request against a limit of its caller's. Contract 1,
 * COLLECTOR_FULLTEXT_PER_MINUTE.
 * @throws ProblemError as the limit does.
 */
export function limitedBy(limit: RateLimit) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    reply.headers(await limit(callerOf(request)));
  };
}
