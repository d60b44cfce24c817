import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { isDraining } from './connections.ts';

/** Check result. All fields are public. `degraded` means that only some requests can be served. */
type HealthReport = { status: 'ok' | 'degraded' | 'down'; [field: string]: unknown };
/** Health checks by name. The signal aborts a check that takes too long. */
export type HealthChecks = Record<string, (signal: AbortSignal) => Promise<HealthReport>>;

/** Time until a check is aborted. The check can then report the dependency as degraded or down. */
const ABORT_TIMEOUT_MS = 2000;
/** Time until a check that ignores its signal is reported as down. */
const CHECK_TIMEOUT_MS = 3000;

/** Pattern of system codes (`ECONNREFUSED`) and PostgreSQL codes (`57P01`), which reveal no private details. */
const PUBLIC_ERROR_CODE_PATTERN = /^[A-Z0-9_]{5,40}$/;

const SHUTDOWN_REPORT = {
  status: 'down' as const,
  checks: { process: { status: 'down', detail: 'The process is ending.' } },
};

const createReportSchema = (description: string, databaseStatus: 'ok' | 'down') =>
  Type.Object(
    {
      status: Type.Union([Type.Literal('ok'), Type.Literal('degraded'), Type.Literal('down')]),
      checks: Type.Record(
        Type.String(),
        Type.Object({ status: Type.String() }, { additionalProperties: true }),
      ),
    },
    {
      description,
      examples: [{ status: databaseStatus, checks: { database: { status: databaseStatus } } }],
    },
  );

const liveSchema = Type.Object(
  { status: Type.Literal('ok') },
  { description: 'The process responds.', examples: [{ status: 'ok' }] },
);

/**
 * Registers `GET /health` and `/health/ready` (all checks: 200 for ok and degraded, 503 for down) and `/health/live`
 * (always 200). Contract 4, Health. A closing server reports `down`.
 */
export function registerHealthRoutes(app: FastifyInstance, checks: HealthChecks): void {
  const schema = {
    tags: ['operations'],
    response: {
      200: createReportSchema('The service can do all or a part of its work.', 'ok'),
      503: createReportSchema('The service cannot do its work.', 'down'),
    },
  };
  const routeOptions = { config: { operational: true }, logLevel: 'warn' } as const;
  const runChecks = async (log: FastifyBaseLogger) => {
    const results = await Promise.all(
      Object.entries(checks).map(async ([name, check]) => {
        const result = await runCheck(check).catch((error: unknown) => {
          log.warn({ err: error, check: name }, 'health check failed');
          return { status: 'down', detail: describeFailure(error) } as const;
        });
        return [name, result] as const;
      }),
    );
    const failureStatuses = ['down', 'degraded'] as const;
    const status =
      failureStatuses.find((failureStatus) =>
        results.some(([, result]) => result.status === failureStatus),
      ) ?? 'ok';
    return { status, checks: Object.fromEntries(results) };
  };
  for (const url of ['/health', '/health/ready']) {
    app.get(
      url,
      {
        ...routeOptions,
        schema: { ...schema, summary: 'Check whether the service can do its work' },
      },
      async (request, reply) => {
        const result = isDraining(app) ? SHUTDOWN_REPORT : await runChecks(request.log);
        return reply.status(result.status === 'down' ? 503 : 200).send(result);
      },
    );
  }
  app.get(
    '/health/live',
    {
      ...routeOptions,
      schema: {
        tags: ['operations'],
        summary: 'Check whether the process responds',
        response: { 200: liveSchema },
      },
    },
    () => ({ status: 'ok' as const }),
  );
}

/** Describes a failed check for the public endpoint, without private details. */
function describeFailure(error: unknown): string {
  if (error instanceof CheckTimeoutError) return error.message;
  const code = findRootErrorCode(error);
  return `The check failed${code === undefined ? '' : ` (${code})`}; see the log.`;
}

/** Returns the innermost public code of an error and its causes. */
function findRootErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const code =
    'code' in error && PUBLIC_ERROR_CODE_PATTERN.test(String(error.code))
      ? String(error.code)
      : undefined;
  return findRootErrorCode(error.cause) ?? code;
}

class CheckTimeoutError extends Error {}

function runCheck(check: HealthChecks[string]): Promise<HealthReport> {
  const timeout = sleep(CHECK_TIMEOUT_MS, undefined, { ref: false }).then(() => {
    throw new CheckTimeoutError(`The check did not respond within ${CHECK_TIMEOUT_MS / 1000} s.`);
  });
  // `Promise.try` also catches a check that throws synchronously.
  return Promise.race([timeout, Promise.try(check, AbortSignal.timeout(ABORT_TIMEOUT_MS))]);
}
