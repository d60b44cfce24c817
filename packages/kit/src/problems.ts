import { type Static, Type } from 'typebox';

/** Row of an app's error table. */
export type ErrorDefinition = {
  status: number;
  title: string;
  /** Suggested action for the client. */
  advice: string;
  /** Whether the same request can succeed later. False by default. */
  canRetry?: boolean;
  /** Content of the error page: advice that replaces the general advice, and a call to action. */
  page?: { advice?: string; button?: { href: string; text: string } };
};

/** Details of one occurrence of an error. */
type ProblemDetails = {
  /** Public description of this occurrence. */
  detail?: string;
  /** Underlying error. Logged, but never sent to clients. */
  cause?: unknown;
  /** Violated rules with the paths of the invalid values. */
  errors?: readonly { path: string; message: string }[];
  /** Response headers, such as `retry-after`. */
  headers?: Readonly<Record<string, string>>;
  /** Additional response members (RFC 9457 §3.2), such as a resource ID. */
  members?: Readonly<Record<string, unknown>>;
};

/** Error that becomes an `application/problem+json` response (RFC 9457). Contract 2. */
export class ProblemError extends Error {
  override readonly name = 'ProblemError';
  readonly code: string;
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  readonly errors: readonly { path: string; message: string }[] | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly members: Readonly<Record<string, unknown>>;
  /** Content of the error page. `ProblemDetails.detail` takes precedence over the advice. */
  readonly page: { detail: string; button: { href: string; text: string } | undefined };

  constructor(code: string, definition: ErrorDefinition, details: ProblemDetails = {}) {
    const detail = details.detail ?? definition.advice;
    super(`${code}: ${detail}`, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.status = definition.status;
    this.title = definition.title;
    this.detail = detail;
    this.errors = details.errors;
    this.headers = details.headers ?? {};
    this.members = details.members ?? {};
    const { advice = detail, button } = definition.page ?? {};
    this.page = { detail: details.detail ?? advice, button };
  }
}

/** Creates a factory for the errors of an error table. */
export function createProblemFactory<Code extends string>(
  table: Readonly<Record<Code, ErrorDefinition>>,
) {
  return (code: Code, details?: ProblemDetails) => new ProblemError(code, table[code], details);
}

const MAX_LISTED_ERRORS = 50;

/** Schema of error responses: RFC 9457 with additional members. Contract 2. */
export const problemSchema = Type.Object(
  {
    type: Type.String({ description: 'URL of the description of the error.' }),
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.String(),
    code: Type.String({ description: 'Stable; see docs/errors.md.' }),
    request_id: Type.String(),
    errors: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
  },
  { $id: 'Problem' },
);

/** Body of an error response. */
export type ProblemBody = Static<typeof problemSchema>;

/** Creates the body of an error response, for HTTP and WebSockets, with at most 50 `errors`. Contract 2. */
export function createProblemBody(
  { code, title, status, detail, errors, members }: ProblemError,
  requestId: string,
): ProblemBody {
  return {
    ...members,
    type: `urn:oselya:error:${code}`,
    title,
    status,
    detail,
    code,
    request_id: requestId,
    ...(errors && { errors: errors.slice(0, MAX_LISTED_ERRORS) }),
  };
}

/** Errors that all HTTP servers of the platform share. Contract 2. */
export const commonErrors = {
  malformed_request: {
    status: 400,
    title: 'Malformed request',
    advice: 'The request could not be read. Send well-formed HTTP with a well-formed JSON body.',
  },
  metrics_token_needed: {
    status: 401,
    title: 'Metrics need a token',
    advice: 'The token is missing or wrong. Send METRICS_TOKEN as `Authorization: Bearer …`.',
  },
  not_found: {
    status: 404,
    title: 'Not found',
    advice: 'There is no resource at this address. See /docs for the addresses of this service.',
    page: { advice: 'There is no page at this address.' },
  },
  method_not_allowed: {
    status: 405,
    title: 'Method not allowed',
    advice: 'This address does not support the method. Use a method that the header `Allow` lists.',
    page: { advice: 'A browser cannot open this address directly.' },
  },
  request_too_slow: {
    status: 408,
    title: 'Request too slow',
    advice: 'The request was not complete in time. Send it faster, or send less in one request.',
    canRetry: true,
  },
  body_too_large: {
    status: 413,
    title: 'Body too large',
    advice: 'The body is larger than this endpoint accepts. Send less in one request.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'Unsupported media type',
    advice:
      'The content type of the body is not supported. Send a content type that /docs lists for this endpoint.',
  },
  validation_failed: {
    status: 422,
    title: 'Validation failed',
    advice:
      'A value violates a rule. Correct the values that `errors` lists, then send the request again.',
    page: { advice: 'A value in this address violates a rule:' },
  },
  rate_limited: {
    status: 429,
    title: 'Too many requests',
    advice:
      'The limit of requests is reached. Wait for the number of seconds in `Retry-After`, then send the request again.',
    canRetry: true,
    page: { advice: 'The limit of requests is reached. Wait a minute, then try again.' },
  },
  headers_too_large: {
    status: 431,
    title: 'Headers too large',
    advice: 'The headers are larger than this service accepts. Send fewer or shorter headers.',
  },
  internal_error: {
    status: 500,
    title: 'Internal error',
    advice:
      'The service failed. Try again; if the error persists, search the service log for the `request_id`.',
    canRetry: true,
    page: {
      advice:
        'The service failed. Try again; if the error persists, send the request ID below to the operator.',
    },
  },
  unavailable: {
    status: 503,
    title: 'Service unavailable',
    advice: 'A service that this service depends on does not respond. Try again in a moment.',
    canRetry: true,
  },
} satisfies Record<string, ErrorDefinition>;

/** Creates an error that is common to all servers. */
export const commonProblem = createProblemFactory(commonErrors);
