import { type FastifyReply, type FastifyRequest, LogController } from 'fastify';

/**
 * One line for each request, when it ends. It has the route's pattern, not the path or the query:
 * codes, states and session ids travel there.
 */
export class RequestLog extends LogController {
  constructor() {
    super({ requestIdLogLabel: 'request_id' });
  }

  override incomingRequest(): void {}

  override routeNotFound(): void {}

  /** Errors are logged where they are turned into problems. */
  override defaultErrorLog(): void {}

  override requestCompleted(
    error: Error | null | undefined,
    request: FastifyRequest,
    reply: FastifyReply,
  ): void {
    const line = requestLine(request, reply);
    if (error) request.log.error({ ...line, err: error }, 'request failed');
    else request.log.info(line, 'request');
  }
}

/** Logs a request that was answered past Fastify, for which it has no answer, and so no end. */
export function logAnswered(request: FastifyRequest, reply: FastifyReply, status: number): void {
  request.log.info({ ...requestLine(request, reply), status }, 'request');
}

function requestLine(request: FastifyRequest, reply: FastifyReply) {
  return {
    method: request.method,
    route: request.routeOptions.url ?? null,
    status: reply.statusCode,
    duration_ms: Math.round(reply.elapsedTime),
  };
}
