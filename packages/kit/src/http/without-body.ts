import type { FastifyReply, FastifyRequest } from 'fastify';

/**
 * A hook that passes over what is sent to a route that takes no body: many clients name a content type
 * with everything they send, and some send an empty object along. It is not parsed, so that there is
 * nothing to be wrong with it, and not kept; Node reads it off the connection (RFC 9110 §9.3.5).
 */
export function passOverUndeclaredBody(
  { headers, routeOptions }: FastifyRequest,
  _reply: FastifyReply,
  done: () => void,
): void {
  if (routeOptions.schema?.body === undefined) {
    delete headers['content-type'];
    delete headers['content-length'];
    delete headers['transfer-encoding'];
  }
  done();
}
