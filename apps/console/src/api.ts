/** Error response of the assistant (RFC 9457). */
export type Problem = { code: string; title: string; detail: string; request_id: string };

/** Failed request. */
export class RequestError extends Error {
  readonly status: number;
  readonly problem: Partial<Problem>;
  /** Seconds until a retry may succeed; undefined if the server names none. */
  readonly retryAfter: number | undefined;

  constructor(status: number, problem: Partial<Problem>, retryAfter?: number) {
    super(problem.detail ?? problem.title ?? `The server answered ${status}`);
    this.name = 'RequestError';
    this.status = status;
    this.problem = problem;
    this.retryAfter = retryAfter;
  }
}

type RequestOptions = { method?: string; body?: unknown; signal?: AbortSignal };

/**
 * Sends a request to the assistant, and returns the JSON of its response.
 * @param path Path with the query.
 * @throws RequestError for an error response; TypeError if the server cannot be reached.
 */
export async function request<Response>(path: string, options?: RequestOptions): Promise<Response> {
  const response = await send(path, options);
  return (response.status === 204 ? undefined : await response.json()) as Response;
}

/** Part of a long list, with the path of the next part. */
export type Part<Data> = { data: Data; next: string | null };

/** Requests a part of a list, whose next part is in the header `Link`. Throws like {@link request}. */
export async function requestPart<Data>(
  path: string,
  options?: RequestOptions,
): Promise<Part<Data>> {
  const response = await send(path, options);
  const next = /<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1] ?? null;
  return { data: (await response.json()) as Data, next };
}

async function send(
  path: string,
  { method = 'GET', body, signal }: RequestOptions = {},
): Promise<Response> {
  const response = await fetch(path, {
    method,
    ...(signal && { signal }),
    ...(body !== undefined && {
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    }),
  });
  if (response.ok) return response;
  const problem = (await response.json().catch(() => ({}))) as Partial<Problem>;
  const retryAfter = Number(response.headers.get('retry-after')) || undefined;
  throw new RequestError(response.status, problem, retryAfter);
}
