import { AsyncLocalStorage } from 'node:async_hooks';
import { type FastifyReply, type FastifyRequest, LogController } from 'fastify';
import { type Logger as PinoLogger, pino, stdTimeFunctions } from 'pino';

export type Logger = PinoLogger;

/**
 * Logged error fields, including those of OAuth 2.0 (RFC 6749 §5.2). Other fields may contain secrets or personal data.
 */
const ERROR_FIELDS =
  'code status severity schema table column constraint error error_description'.split(' ');

// An error message may be an HTML page, and fields may be circular.
const MAX_TEXT_LENGTH = 10_000;
const MAX_DEPTH = 5;

/**
 * Creates a logger that writes one JSON object per line, to standard output by default. Each line includes the fields
 * of `withLogFields`. Errors are reduced to their type, message, stack, causes and `ERROR_FIELDS`, and instances of
 * other classes without `toJSON` to the class name. Contract 2.
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
    mixin: getLogFields,
    formatters: { level: (label: string) => ({ level: label }), log: formatFields },
    // Already formatted by `formatFields`. Pino's serializer would copy all fields of an error.
    serializers: { err: (error: unknown) => error },
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
  if (Array.isArray(value)) return value.map((element) => formatValue(element, depth + 1));
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null
    ? formatFields(value, depth + 1)
    : `[${value.constructor.name}]`;
}

function formatError(error: Error, depth: number): Record<string, unknown> {
  const { name, message, stack = '', cause } = error;
  const formattedError: Record<string, unknown> = {
    type: name === 'Error' ? error.constructor.name : name,
    message: message.slice(0, MAX_TEXT_LENGTH),
    stack: stack.slice(0, MAX_TEXT_LENGTH),
  };
  for (const key of ERROR_FIELDS) {
    const value: unknown = Reflect.get(error, key);
    if (typeof value === 'string') formattedError[key] = value.slice(0, MAX_TEXT_LENGTH);
    if (typeof value === 'number') formattedError[key] = value;
  }
  // A cause that is not an Error may be a server response that contains tokens.
  if (cause instanceof Error) formattedError['cause'] = formatValue(cause, depth + 1);
  if (error instanceof AggregateError)
    formattedError['errors'] = formatValue(error.errors, depth + 1);
  return formattedError;
}

type LogFields = Readonly<Record<string, unknown>>;

const logScopes = new AsyncLocalStorage<{ fields: LogFields }>();

/**
 * Adds fields to all lines that are logged while a function runs. Nested calls inherit the fields. Fields of a
 * line take precedence. Lines logged after the function ends do not include the fields.
 */
export function withLogFields<Result>(
  fields: LogFields,
  callback: () => Promise<Result>,
): Promise<Result> {
  return withIsolatedLogFields({ ...logScopes.getStore()?.fields, ...fields }, callback);
}

/** Adds fields like `withLogFields`, but without inherited fields. For operations that several callers share. */
export async function withIsolatedLogFields<Result>(
  fields: LogFields,
  callback: () => Promise<Result>,
): Promise<Result> {
  const scope = { fields };
  try {
    return await logScopes.run(scope, callback);
  } finally {
    scope.fields = {};
  }
}

/** Returns a copy of the fields of the current asynchronous context. */
export function getLogFields(): Record<string, unknown> {
  return { ...logScopes.getStore()?.fields };
}

/** Controller that logs one line per request, with the route pattern instead of the URL, which may contain secrets. */
export class RequestLogController extends LogController {
  constructor() {
    super({ requestIdLogLabel: 'request_id' });
  }

  override incomingRequest(): void {}

  override routeNotFound(): void {}

  /** Does nothing, because the error handler logs errors. */
  override defaultErrorLog(): void {}

  override requestCompleted(
    error: Error | null | undefined,
    request: FastifyRequest,
    reply: FastifyReply,
  ): void {
    const requestFields = describeRequest(request, reply);
    if (error) request.log.error({ ...requestFields, err: error }, 'request failed');
    else request.log.info(requestFields, 'request');
  }
}

/** Logs a request whose response bypasses Fastify, which then does not call `requestCompleted`. */
export function logRawResponse(request: FastifyRequest, reply: FastifyReply, status: number): void {
  request.log.info({ ...describeRequest(request, reply), status }, 'request');
}

function describeRequest(request: FastifyRequest, reply: FastifyReply) {
  return {
    method: request.method,
    route: request.routeOptions.url ?? null,
    status: reply.statusCode,
    duration_ms: Math.round(reply.elapsedTime),
  };
}
