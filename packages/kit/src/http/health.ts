import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { isDraining } from './connections.ts';

/** The health of a service, or of a part of it: `degraded` serves at least a part of the requests. */
export type HealthStatus = 'ok' | 'degraded' | 'down';
/** The result of a check. Its facts are public. */
export type HealthReport = { status: HealthStatus; [fact: string]: unknown };
/** The checks of a service by name; see `healthRoutes` for their signal. */
export type HealthChecks = Record<string, (signal: AbortSignal) => Promise<HealthReport>>;

/** When a check is aborted, so that it can still judge a peer that hangs. */
const ABORT_MS = 2000;

/** When a check that did not stop is down. */
const GIVE_UP_MS = 3000;

/** Codes of the system (`ECONNREFUSED`) and of PostgreSQL (`57P01`), which reveal nothing about the installation. */
const PUBLIC_CODE = /^[A-Z0-9_]{5,40}$/;

const ENDING = {
  status: 'down' as const,
  checks: { process: { status: 'down', detail: 'The process is ending.' } },
};

const reportSchema = (description: string, databaseStatus: 'ok' | 'down') =>
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
  { description: 'It does.', examples: [{ status: 'ok' }] },
);

/**
 * Serves `GET /health` (every check; 200 for ok and degraded, 503 for down), `/health/live` (the process answers) and
 * `/health/ready` (as `/health`, for load balancers). Contract 4, Health. A check is aborted after 2 s, and judges itself
 * then. One that fails or takes 3 s is down, and so is a closing server. The public `detail` has at most the error's code.
 */
export function healthRoutes(app: FastifyInstance, checks: HealthChecks): void {
  const schema = {
    tags: ['operations'],
    response: {
      200: reportSchema('It can, or does at least a part of it.', 'ok'),
      503: reportSchema('It cannot.', 'down'),
    },
  };
  const options = { config: { operational: true }, logLevel: 'warn' } as const;
  const report = async (log: FastifyBaseLogger) => {
    const results = await Promise.all(
      Object.entries(checks).map(async ([name, check]) => {
        const result = await run(check).catch((error: unknown) => {
          log.warn({ err: error, check: name }, 'health check failed');
          return { status: 'down', detail: detailOf(error) } as const;
        });
        return [name, result] as const;
      }),
    );
    const statuses = new Set(results.map(([, result]) => result.status));
    const status: HealthStatus = statuses.has('down')
      ? 'down'
      : statuses.has('degraded')
        ? 'degraded'
        : 'ok';
    return { status, checks: Object.fromEntries(results) };
  };
  for (const url of ['/health', '/health/ready']) {
    app.get(
      url,
      { ...options, schema: { ...schema, summary: 'Whether the service can do its work' } },
      async (request, reply) => {
        const result = isDraining(app) ? ENDING : await report(request.log);
        return reply.status(result.status === 'down' ? 503 : 200).send(result);
      },
    );
  }
  app.get(
    '/health/live',
    {
      ...options,
      schema: {
        tags: ['operations'],
        summary: 'Whether the process answers',
        response: { 200: liveSchema },
      },
    },
    () => ({ status: 'ok' as const }),
  );
}

/** Describes a failed check without private details: the endpoint is public. */
function detailOf(error: unknown): string {
  if (error instanceof LateError) return error.message;
  const code = rootCode(error);
  return `The check failed${code === undefined ? '' : ` (${code})`}; see the log.`;
}

/** Returns the code of the innermost cause that has a public one. */
function rootCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const own =
    'code' in error && PUBLIC_CODE.test(String(error.code)) ? String(error.code) : undefined;
  return rootCode(error.cause) ?? own;
}

class LateError extends Error {}

async function run(check: HealthChecks[string]): Promise<HealthReport> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new LateError(`No answer within ${GIVE_UP_MS / 1000} s.`)),
    GIVE_UP_MS,
  );
  try {
    // Inside of a promise, also for a check that throws before it gives one.
    return await Promise.race([late.promise, Promise.try(check, AbortSignal.timeout(ABORT_MS))]);
  } finally {
    clearTimeout(timer);
  }
}
