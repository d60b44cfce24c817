import { ProblemError, problemSchema } from '@oselya/kit';
import { Value } from 'typebox/value';
import { type ErrorCode, problem } from '../errors.ts';
import type { CollectorClient } from './client.ts';

/** Headers of the collector that clients of the assistant need too. */
const FORWARDED_HEADERS = [
  'link',
  'retry-after',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
];

/** Statuses of a rejected API key, and of a failure that only the log of the collector explains. */
const DENIED_STATUSES: ReadonlySet<number> = new Set([401, 403]);
const INTERNAL_ERROR_STATUS = 500;

/**
 * Sends a request to the collector, as `CollectorClient.fetch`, and returns the successful response with the headers for
 * the client of the assistant.
 * @param options.deniedCode The error for a rejected API key of the assistant.
 * @throws ProblemError The collector's problem, or `collector_unavailable`.
 */
export async function forwardRequest(
  collector: CollectorClient,
  path: string,
  options: { method?: string; body?: object | undefined; deniedCode?: ErrorCode } = {},
): Promise<{ response: Response; headers: Record<string, string> }> {
  const { deniedCode = 'collector_unavailable', ...request } = options;
  try {
    const response = await collector.fetch(path, request);
    const headers = selectHeaders(response);
    if (response.ok) return { response, headers };
    if (DENIED_STATUSES.has(response.status)) throw failWithStatus(response.status, deniedCode);
    throw toProblem(response.status, await response.json(), headers);
  } catch (error) {
    throw error instanceof ProblemError
      ? error
      : problem('collector_unavailable', { cause: error });
  }
}

/** Reads the JSON of a response. @throws ProblemError `collector_unavailable` if it is none. */
export function readJson(response: Response): Promise<unknown> {
  return response.json().catch((cause: unknown) => {
    throw problem('collector_unavailable', { cause });
  });
}

function selectHeaders({ headers }: Response): Record<string, string> {
  const entries = FORWARDED_HEADERS.map((name) => [name, headers.get(name)] as const);
  return Object.fromEntries(
    entries.flatMap(([name, value]) =>
      value === null ? [] : [[name, value.replace('</api/v1/', '</')]],
    ),
  );
}

function toProblem(status: number, body: unknown, headers: Record<string, string>): ProblemError {
  if (status === INTERNAL_ERROR_STATUS || !Value.Check(problemSchema, body)) {
    return failWithStatus(status, 'collector_unavailable');
  }
  const { code, title, detail: advice, errors } = body;
  return new ProblemError(code, { status, title, advice }, { headers, ...(errors && { errors }) });
}

const failWithStatus = (status: number, code: ErrorCode) =>
  problem(code, { cause: new Error(`The collector responded with status ${status}`) });
