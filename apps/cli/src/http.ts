import { Type } from 'typebox';
import { Value } from 'typebox/value';
import { CommandError } from './command.ts';
import { sanitizeLine } from './terminal.ts';

const TIMEOUT_MS = 60_000;

/** Maximum response size. A response with 100 listings of maximum size is 20 MB. */
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

export type HttpRequest = {
  method?: 'GET' | 'POST' | undefined;
  headers?: Record<string, string> | undefined;
  body?: object | undefined;
};

/** HTTP response. `body` is parsed JSON, or undefined for other bodies and for more than 64 MiB. */
export type HttpResponse = { status: number; headers: Headers; body: unknown };

/**
 * Sends a request. Redirects are not followed, because they could carry a key or a cookie elsewhere.
 * @throws The errors of `fetch`, including a timeout after a minute; `getFailureReason` shortens them.
 */
export async function sendRequest(
  url: string,
  { method = 'GET', headers = {}, body }: HttpRequest,
): Promise<HttpResponse> {
  const response = await fetch(url, {
    method,
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    redirect: 'manual',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const { status, headers: responseHeaders } = response;
  const chunks: Uint8Array[] = [];
  let byteCount = 0;
  for await (const chunk of response.body ?? []) {
    byteCount += chunk.length;
    if (byteCount > MAX_RESPONSE_BYTES)
      return { status, headers: responseHeaders, body: undefined };
    chunks.push(chunk);
  }
  const text = new TextDecoder().decode(Buffer.concat(chunks));
  return { status, headers: responseHeaders, body: parseJson(text) };
}

/** Parses JSON; returns undefined for invalid JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns a short reason for a failed request, such as `ECONNREFUSED`. */
export function getFailureReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return `no answer within ${TIMEOUT_MS / 1000} s`;
  // The cause of a fetch error contains the system's error code.
  const { cause } = error;
  if (!(cause instanceof Error)) return error.message;
  return (cause as NodeJS.ErrnoException).code ?? cause.message;
}

const problemSchema = Type.Object({
  title: Type.String(),
  detail: Type.Optional(Type.String()),
  errors: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
});

/** Parses a problem body (RFC 9457). Returns undefined for other bodies. */
export function parseProblem(body: unknown): { title: string; text: string } | undefined {
  if (!Value.Check(problemSchema, body)) return undefined;
  const { title, detail = title, errors = [] } = body;
  const errorList = errors.map(({ path, message }) => `${path} ${message}`).join('; ');
  return { title: sanitizeLine(title), text: sanitizeLine(errorList || detail) };
}

export type CollectorConnection = { url: string; apiKey: string | undefined };

/** Thrown if the collector does not respond completely. `reason` is short, such as `ECONNREFUSED`. */
export class CollectorUnreachableError extends CommandError {
  readonly reason: string;

  constructor(url: string, cause: unknown) {
    const reason = getFailureReason(cause);
    super(
      `the collector at ${url} cannot be reached (${reason}): start it with npm start, or set COLLECTOR_URL to its address`,
      { cause },
    );
    this.reason = reason;
  }
}

/**
 * Sends a request to a running collector.
 * @param path Path of the request, such as `/api/v1/ingest`.
 * @throws CollectorUnreachableError
 */
export async function requestCollector(
  { url, apiKey }: CollectorConnection,
  path: string,
  { headers, ...otherOptions }: HttpRequest = {},
): Promise<HttpResponse> {
  try {
    return await sendRequest(url.replace(/\/+$/, '') + path, {
      headers: { ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }), ...headers },
      ...otherOptions,
    });
  } catch (cause) {
    throw new CollectorUnreachableError(url, cause);
  }
}

/** Creates the error for a server other than a collector. */
export function createNotCollectorError(url: string): CommandError {
  return new CommandError(
    `the server at ${url} is not a collector: set COLLECTOR_URL to the address of one`,
  );
}

/**
 * Describes why the collector rejected a request. Adds a remedy for a wrong address and for a wrong API key.
 * @param subject The rejected request, such as `the search`.
 * @param scope Scope that the API key needs.
 */
export function describeRejection(
  { status, body }: HttpResponse,
  { subject, scope }: { subject: string; scope: string },
): string {
  const rejection = `the collector rejected ${subject} (${status})`;
  const problem = parseProblem(body);
  if (problem === undefined || status === 404) {
    const reason =
      problem === undefined ? ' without a reason' : `: ${problem.text.replace(/\.$/, '')}`;
    return `${rejection}${reason}: set COLLECTOR_URL to the address of a collector`;
  }
  if (status === 401) {
    return `${rejection}: ${problem.title}: set COLLECTOR_API_KEY to one with the scope ${scope}; create one with npx oselya api-key create`;
  }
  return `${rejection}: ${problem.text}`;
}
