import type { CustomFetch } from 'openid-client';
import { ProviderError } from './provider-error.ts';

/** Far more than any token or user data; an answer without end would fill the memory. */
const MAX_ANSWER_BYTES = 256 * 1024;

/** OAuth errors that say something about this service or the provider, not about grant or user. */
const FAULTS = new Set([
  'invalid_request',
  'invalid_scope',
  'invalid_client',
  'unauthorized_client',
  'insufficient_scope',
  'unsupported_grant_type',
  'server_error',
  'temporarily_unavailable',
  'slow_down',
]);

/** What refuses a grant even where it explains nothing, and what says nothing about one whatever it explains. */
const REFUSE_GRANT = new Set([400, 401, 403]);
const NEVER_REFUSE = new Set([408, 425, 429]);

/**
 * Calls the identity provider. Gives answers that succeeded; the time and size of every call are
 * bounded, the body included.
 * @throws ProviderError for everything else: the one place that tells a refusal from an outage.
 */
export function createTransport(timeoutMs: number): CustomFetch {
  return async (url, { method, headers, body: content, redirect }) => {
    const { pathname } = new URL(url);
    let response: Response;
    let body: string;
    try {
      const signal = AbortSignal.timeout(timeoutMs);
      const request: RequestInit = { method, headers, body: content ?? null, redirect, signal };
      response = await fetch(url, request);
      body = await readBounded(response);
    } catch (error) {
      throw new ProviderError('unavailable', `${pathname} ${reason(error, timeoutMs)}`);
    }
    if (!response.ok) throw failure({ pathname, method, response, body });
    return new Response(body, {
      status: 200,
      headers: { 'content-type': response.headers.get('content-type') ?? 'application/json' },
    });
  };
}

async function readBounded(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > MAX_ANSWER_BYTES) {
      throw new RangeError(`answered with more than ${MAX_ANSWER_BYTES} bytes`);
    }
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/**
 * Tells a refusal from an outage. What is posted is a grant, any other request brings an access token. An
 * OAuth error about this service, or a page for people, is not what the provider thinks of a grant.
 */
function failure({
  pathname,
  method,
  response,
  body,
}: {
  pathname: string;
  method: string;
  response: Response;
  body: string;
}): ProviderError {
  const { status, headers } = response;
  const code = oauthError(body);
  const isPage = headers.get('content-type')?.includes('html') === true;
  const isFault = isPage || (code !== undefined && FAULTS.has(code));
  const isRefusal =
    method === 'POST' ? !isFault && refusesGrant(status, code) : refusesAccess(status, isFault);
  return new ProviderError(
    isRefusal ? 'refused' : 'unavailable',
    [`${pathname} answered`, status, code].filter(Boolean).join(' '),
  );
}

/**
 * Whether it is a 4xx with an OAuth error about the grant (RFC 6749 §5.2), or a 400, 401 or 403 that explains
 * nothing. A 404 is more likely a proxy in front of a provider that is being restarted.
 */
function refusesGrant(status: number, code: string | undefined): boolean {
  if (code === undefined) return REFUSE_GRANT.has(status);
  return status >= 400 && status < 500 && !NEVER_REFUSE.has(status);
}

/**
 * Whether it is a 401, whatever its body: some services write a page there, and nobody is signed out before
 * a refresh (Contract 3, Refresh). A 403 is one where it is no fault (RFC 6750 §3.1).
 */
function refusesAccess(status: number, isFault: boolean): boolean {
  return status === 401 || (status === 403 && !isFault);
}

/** The `error` of an OAuth answer, where it looks like a code: it goes to the log. */
function oauthError(body: string): string | undefined {
  try {
    const answer: unknown = JSON.parse(body);
    if (typeof answer !== 'object' || answer === null || !('error' in answer)) return undefined;
    const { error } = answer;
    return typeof error === 'string' && /^[a-z_]{1,40}$/.test(error) ? error : undefined;
  } catch {
    return undefined;
  }
}

function reason(error: unknown, timeoutMs: number): string {
  if (!(error instanceof Error)) return 'could not be called';
  if (error.name === 'TimeoutError') return `did not answer within ${timeoutMs} ms`;
  if (error instanceof RangeError) return error.message;
  const { cause } = error;
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : error.name;
  return `could not be reached (${code})`;
}
