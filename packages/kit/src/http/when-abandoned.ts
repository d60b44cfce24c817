import type { FastifyReply } from 'fastify';

/**
 * A signal that is given when whoever asked hangs up before the answer is out, so that no model works for
 * nobody. Not Fastify's `request.signal`: that is given as soon as the body of a request has been read.
 */
export function whenAbandoned({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController();
  // Of who has gone before, while it was asked who they are, nothing is told any more.
  if (raw.closed) controller.abort();
  raw.once('close', () => {
    if (!raw.writableFinished) controller.abort();
  });
  return controller.signal;
}
