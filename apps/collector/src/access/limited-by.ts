import { clientNetwork, type RateLimit } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';

/**
 * The hook of a route that counts each request against a limit: by the id of its API key, or by the client's
 * network without one. Contract 1, COLLECTOR_FULLTEXT_PER_MINUTE.
 * @throws ProblemError as the limit does.
 */
export function limitedBy(limit: RateLimit) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    reply.headers(await limit(request.apiKey?.id ?? clientNetwork(request.ip)));
  };
}
