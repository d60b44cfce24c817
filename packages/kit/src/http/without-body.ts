import type { FastifyReply, FastifyRequest } from 'fastify';

/**
 * A hook that forgets the content type of a request without content, where the route takes no body:
 * many clients name one with everything they send, and Fastify would parse the nothing as that type.
 * A route that takes a body still refuses its absence.
 */
export function ignoreTypeOfNothing(
  { headers, routeOptions }: FastifyRequest,
  _reply: FastifyReply,
  done: () => void,
): void {
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = headers;
  const isEmpty = encoding === undefined && length === '0';
  if (isEmpty && routeOptions.schema?.body === undefined) delete headers['content-type'];
  done();
}
