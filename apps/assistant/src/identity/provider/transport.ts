import { ProblemError } from '@oselya/kit';
import type { CustomFetch, CustomFetchOptions } from 'openid-client';
import type { Config } from '../../config.ts';
import { problem } from '../../errors.ts';

/**
 * Failed request to the identity provider: `rejected` if the provider rejected a code or token, otherwise
 * `unavailable`. It has no cause, because responses contain tokens and errors are logged.
 */
export class ProviderError extends Error {
  override readonly name = 'ProviderError';
  readonly kind: 'rejected' | 'unavailable';

  constructor(kind: 'rejected' | 'unavailable', message: string) {
    super(message);
    this.kind = kind;
  }
}

/** Error for user data without an email address that can be stored. */
export class NoEmailError extends ProviderError {
  constructor() {
    super('unavailable', 'userinfo responded without a usable email');
  }
}

/** Returns whether an error is the provider's rejection of a code or token. */
export function isRejection(error: unknown): boolean {
  return error instanceof ProviderError && error.kind === 'rejected';
}

/** Converts an error of openid-client or jose to a ProviderError. Returns a ProblemError unchanged. */
export function toProviderError(error: unknown): ProviderError | ProblemError {
  if (error instanceof ProviderError || error instanceof ProblemError) return error;
  if (error instanceof Error && error.cause instanceof ProviderError) return error.cause;
  const code = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : '';
  return new ProviderError('unavailable', `the answer is not usable${code}`);
}

/** Creates the error for a request that needs the provider while it is unavailable. Contract 3, Refresh. */
export function createProviderUnavailableError(details: { cause?: unknown; detail?: string } = {}) {
  return problem('provider_unavailable', { headers: { 'retry-after': '5' }, ...details });
}

/** Converts a ProviderError to a request error. Returns other errors unchanged. */
export function toRequestError(cause: unknown): unknown {
  if (cause instanceof NoEmailError) return problem('user_without_email', { cause });
  return cause instanceof ProviderError ? createProviderUnavailableError({ cause }) : cause;
}

/** Converts a ProviderError to a sign-in error. Returns other errors unchanged. */
export function toSignInError(cause: unknown): unknown {
  if (cause instanceof NoEmailError) return problem('account_without_email', { cause });
  if (!(cause instanceof ProviderError)) return cause;
  const detail = 'You are not signed in. Sign in again in a few seconds.';
  return createProviderUnavailableError({ cause, detail });
}

type ProviderOperation = 'discovery' | 'keys' | 'token' | 'refresh' | 'userinfo' | 'revoke';

/** Measures a request to the provider, and returns its result or throws its error. */
export type MeasureRequest = <Result>(
  operation: ProviderOperation,
  request: () => Promise<Result>,
) => Promise<Result>;

const MAX_RESPONSE_BYTES = 256 * 1024;

/** OAuth errors that reject a grant. Other errors may come from a gateway. RFC 6749 §5.2, RFC 6750 §3.1. */
const GRANT_REJECTIONS = new Set([
  'invalid_grant',
  'access_denied',
  'invalid_token',
  'unauthorized_client',
]);

const BUSY_STATUSES = new Set([408, 425, 429]);

/**
 * Creates the function that calls the provider for openid-client and jose, with limits on time and size. It throws
 * ProviderError for failed requests and unsuccessful responses. Without discovery it removes ID tokens, which cannot be
 * verified.
 */
export function createTransport(config: Config, measure: MeasureRequest): CustomFetch {
  const { IDP_TIMEOUT_MS: timeoutMs, IDP_DISCOVERY: acceptsIdTokens } = config;

  async function sendRequest(
    operation: ProviderOperation,
    url: string,
    options: CustomFetchOptions,
  ) {
    const { pathname } = new URL(url);
    let response: Response;
    let text: string;
    try {
      const signal = AbortSignal.timeout(timeoutMs);
      response = await fetch(url, { ...options, body: options.body ?? null, signal });
      text = await readBounded(response);
    } catch (error) {
      throw new ProviderError('unavailable', `${pathname} ${describeFailure(error, timeoutMs)}`);
    }
    const { ok, status, headers } = response;
    if (!ok) {
      const code = readOauthError(text);
      const message = [`${pathname} responded with status`, status, code].filter(Boolean).join(' ');
      const isRejected = isRejectionStatus(operation, status, code);
      throw new ProviderError(isRejected ? 'rejected' : 'unavailable', message);
    }
    const isTokenResponse = operation === 'token' || operation === 'refresh';
    const tokens = isTokenResponse ? parseTokenResponse(text, acceptsIdTokens) : undefined;
    if (tokens !== undefined) return Response.json(tokens);
    const contentType = headers.get('content-type') ?? 'application/json';
    return new Response(text, { status: 200, headers: { 'content-type': contentType } });
  }

  return (url, options) => {
    const operation = findOperation(url, options);
    return measure(operation, () => sendRequest(operation, url, options));
  };
}

function findOperation(url: string, { body, headers }: CustomFetchOptions): ProviderOperation {
  if (body instanceof URLSearchParams) {
    const grantType = body.get('grant_type');
    if (grantType === null) return 'revoke';
    return grantType === 'refresh_token' ? 'refresh' : 'token';
  }
  if (/^bearer /i.test(new Headers(headers).get('authorization') ?? '')) return 'userinfo';
  return url.endsWith('/.well-known/openid-configuration') ? 'discovery' : 'keys';
}

async function readBounded(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > MAX_RESPONSE_BYTES) {
      throw new RangeError(`responded with more than ${MAX_RESPONSE_BYTES} bytes`);
    }
    chunks.push(chunk);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}

function isRejectionStatus(
  operation: ProviderOperation,
  status: number,
  code: string | undefined,
): boolean {
  if (operation === 'userinfo') return status === 401;
  if (operation === 'discovery' || operation === 'keys') return false;
  const isClientError = status >= 400 && status < 500 && !BUSY_STATUSES.has(status);
  return isClientError && code !== undefined && GRANT_REJECTIONS.has(code);
}

/** Returns the `error` of an OAuth response. Ignores a malformed code, because the code is logged. */
function readOauthError(text: string): string | undefined {
  const error = parseObject(text)?.['error'];
  return typeof error === 'string' && /^[a-z_]{1,40}$/.test(error) ? error : undefined;
}

/** Parses a token response (RFC 6749 §5.1) leniently, because the code or refresh token is already used. */
function parseTokenResponse(text: string, acceptsIdTokens: boolean) {
  const response = parseObject(text);
  if (response === undefined || !('access_token' in response)) return undefined;
  const { access_token, token_type, refresh_token, expires_in, id_token } = response;
  const seconds = typeof expires_in === 'string' ? Number.parseFloat(expires_in) : expires_in;
  const isExpiryValid = typeof seconds === 'number' && Number.isFinite(seconds) && seconds >= 0;
  return {
    access_token,
    token_type: token_type ?? 'bearer',
    refresh_token: refresh_token ?? undefined,
    expires_in: isExpiryValid ? seconds : undefined,
    id_token: acceptsIdTokens ? (id_token ?? undefined) : undefined,
  };
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

/** Describes a failure: `could not be reached (ECONNREFUSED)`. A `fetch` error has the code in its `cause`. */
export function describeFailure(error: unknown, timeoutMs: number): string {
  if (!(error instanceof Error)) return 'could not be called';
  if (error.name === 'TimeoutError') return `did not respond within ${timeoutMs} ms`;
  if (error instanceof RangeError) return error.message;
  const { code, message } = (error.cause ?? {}) as Partial<NodeJS.ErrnoException>;
  return `could not be reached (${code ?? message ?? error.name})`;
}
