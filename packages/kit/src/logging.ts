import { AsyncLocalStorage } from 'node:async_hooks';
import { type FastifyReply, type FastifyRequest, LogController } from 'fastify';
import { type Logger as PinoLogger, pino, stdTimeFunctions } from 'pino';

/** Logger of the platform. Contract 2. */
export type Logger = PinoLogger;

/**
 * The fields of errors that are logged beside message, stack, cause and inner errors. Others may hold secrets: the
 * client of a connection with its keys, a row of a table, a request with people's texts.
 */
const ERROR_FIELDS = [
  'code',
  'status',
  'severity',
  'schema',
  'table',
  'column',
  'constraint',
  // Of OAuth 2.0 (RFC 6749 §5.2).
  'error',
  'error_description',
] as const;

/** Limits of a text and of nesting: a server's message may be a whole page, and fields may be circular. */
const MAX_LENGTH = 10_000;
const MAX_DEPTH = 5;

/**
 * Creates a logger that writes one JSON object a line to standard output, with the fields of the work that a line
 * belongs to (see `withLogFields`). An error in any field is written with `ERROR_FIELDS` only, and an instance of any
 * other class as its class name. Contract 2.
 */
export function createLogger(options: {
  level: string;
  service: string;
  destination?: { write(line: string): void };
}): Logger {
  const settings = {
    level: options.level,
    base: { service: options.service },
    timestamp: stdTimeFunctions.isoTime,
    mixin: logFields,
    formatters: { level: (label: string) => ({ level: label }), log: formatFields },
    // `formatFields` has formatted it; pino's own serializer would copy every field of an error.
    serializers: { err: (formatted: unknown) => formatted },
  };
  return options.destination === undefined ? pino(settings) : pino(settings, options.destination);
}

function formatFields(fields: object, depth = 0): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [key, formatValue(value, depth)]),
  );
}

function formatValue(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return value;
  if (depth > MAX_DEPTH) return undefined;
  if (value instanceof Error) return formatError(value, depth);
  if (Array.isArray(value)) return value.map((one) => formatValue(one, depth + 1));
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null
    ? formatFields(value, depth + 1)
    : `[${value.constructor.name}]`;
}

function formatError(error: Error, depth: number): Record<string, unknown> {
  const { name, message, stack = '', cause } = error;
  const formatted: Record<string, unknown> = {
    type: name === 'Error' ? error.constructor.name : name,
    message: message.slice(0, MAX_LENGTH),
    stack: stack.slice(0, MAX_LENGTH),
  };
  for (const key of ERROR_FIELDS) {
    const value: unknown = Reflect.get(error, key);
    if (typeof value === 'string') formatted[key] = value.slice(0, MAX_LENGTH);
    if (typeof value === 'number') formatted[key] = value;
  }
  // A cause of another kind may be the answer of a server, with its tokens.
  if (cause instanceof Error) formatted['cause'] = formatValue(cause, depth + 1);
  if (error instanceof AggregateError) formatted['errors'] = formatValue(error.errors, depth + 1);
  return formatted;
}

type Fields = Readonly<Record<string, unknown>>;

const scopes = new AsyncLocalStorage<{ fields: Fields }>();

/**
 * Adds fields to every line that is logged during and because of some work, also by parts that do not know of it.
 * Fields of enclosing work are kept, and a line's own fields win. The fields end with the work: what a connection that it
 * opened logs later does not have them.
 */
export function withLogFields<Result>(
  fields: Fields,
  work: () => Promise<Result>,
): Promise<Result> {
  return withOnlyLogFields({ ...scopes.getStore()?.fields, ...fields }, work);
}

/** Does the same without the fields of enclosing work, for work that several callers share. */
export async function withOnlyLogFields<Result>(
  fields: Fields,
  work: () => Promise<Result>,
): Promise<Result> {
  const scope = { fields };
  try {
    return await scopes.run(scope, work);
  } finally {
    scope.fields = {};
  }
}

/** Returns a copy of the fields of the current work. */
export function logFields(): Record<string, unknown> {
  return { ...scopes.getStore()?.fields };
}

/**
 * Logs one line for each request, when it ends, with the pattern of its route: path and query may hold codes, states and
 * session ids.
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

/** Logs a request that was answered past Fastify, for which it has no end. */
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
