import type { CustomFetch } from 'openid-client';
import { ProviderError } from './provider-error.ts';

/** Far more than any token or user data; an answer without end would fill the memory. */
const MAX_ANSWER_BYTES = 256 * 1024;

/**
 * The OAuth errors that reject a grant. Every other answer is an outage, since a gateway may have sent it.
 * RFC 6749 §5.2 and §4.1.2.1, RFC 6750 §3.1.
 */
const GRANT_REJECTIONS = new Set([
  'invalid_grant',
  'access_denied',
  'invalid_token',
  'unauthorized_client',
]);

/** Statuses of a server that is busy, whatever the body says. */
const BUSY = new Set([408, 425, 429]);

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
    if (!response.ok) throw failure({ pathname, method, status: response.status, body });
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
 * Distinguishes a rejection from an outage. A POST carries a grant, which only an OAuth error rejects. Any other
 * request carries an access token, which every 401 rejects.
 */
function failure({
  pathname,
  method,
  status,
  body,
}: {
  pathname: string;
  method: string;
  status: number;
  body: string;
}): ProviderError {
  const code = oauthError(body);
  const isRefusal = method === 'POST' ? rejectsGrant(status, code) : status === 401;
  return new ProviderError(
    isRefusal ? 'refused' : 'unavailable',
    [`${pathname} answered`, status, code].filter(Boolean).join(' '),
  );
}

function rejectsGrant(status: number, code: string | undefined): boolean {
  const isClientError = status >= 400 && status < 500 && !BUSY.has(status);
  return isClientError && code !== undefined && GRANT_REJECTIONS.has(code);
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
