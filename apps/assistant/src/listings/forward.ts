import { ProblemError, problemSchema } from '@oselya/kit';
import { Value } from 'typebox/value';
import type { CollectorClient } from '../collector/client.ts';
import { problem } from '../errors.ts';

/** Headers of the collector that clients of the assistant need too. */
const FORWARDED_HEADERS = [
  'link',
  'retry-after',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
];

/** Statuses that the operator must resolve: the key of the assistant is rejected, or the collector fails. */
const OPERATOR_STATUSES: ReadonlySet<number> = new Set([401, 403, 500]);

/**
 * Sends a request to the collector, as `CollectorClient.fetch`, and returns the successful response with the headers for
 * the client of the assistant.
 * @throws ProblemError The collector's problem, or `collector_unavailable`.
 */
export async function forwardRequest(
  collector: CollectorClient,
  path: string,
  body?: object,
): Promise<{ response: Response; headers: Record<string, string> }> {
  try {
    const response = await collector.fetch(path, body);
    const headers = selectHeaders(response);
    if (!response.ok) throw toProblem(response.status, await response.json(), headers);
    return { response, headers };
  } catch (error) {
    throw error instanceof ProblemError
      ? error
      : problem('collector_unavailable', { cause: error });
  }
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
  if (OPERATOR_STATUSES.has(status) || !Value.Check(problemSchema, body)) {
    const cause = new Error(`The collector responded with status ${status}`);
    return problem('collector_unavailable', { cause });
  }
  const { code, title, detail: advice, errors } = body;
  return new ProblemError(code, { status, title, advice }, { headers, ...(errors && { errors }) });
}
