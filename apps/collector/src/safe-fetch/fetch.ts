import type { LookupFunction } from 'node:net';
import { Agent, request } from 'undici';
import { rejectOnAbort } from '../async/wait.ts';
import { createUrlCheck, FetchError, type Lookup, type ResolvedAddress } from './check-url.ts';

const MAX_REDIRECTS = 5;
const REDIRECT_STATUSES = new Set([301, 302, 303, 307, 308]);

/** Timeouts for connecting, for the headers, and between body chunks, in milliseconds. */
const TIMEOUTS_MS = { connect: 10_000, headers: 20_000, body: 20_000 };

/** The response after redirects, with the body as sent. `close` ends the connection. */
export type FetchResponse = Pick<Awaited<ReturnType<typeof request>>, 'headers' | 'body'> & {
  status: number;
  close(): Promise<void>;
};

/**
 * Requests a URL within the rules of `createUrlCheck`, and follows up to five redirects, each checked and pinned again.
 * The caller closes the response.
 * @throws FetchError if the URL or a redirect is malformed or not allowed, or after too many redirects;
 *   `signal.reason`; network errors.
 */
export type SafeFetch = (
  url: string,
  options: { signal: AbortSignal; accept?: string },
) => Promise<FetchResponse>;

/** Creates a `fetch` that prevents server-side request forgery. Specification 001, Errors; Contract 4, Images. */
export function createSafeFetch(options: {
  allow: readonly string[];
  lookup?: Lookup | undefined;
}): SafeFetch {
  const checkUrl = createUrlCheck(options);

  return async (text, { signal, accept = '*/*' }) => {
    let url = parseUrl(text);
    for (let redirectCount = 0; ; redirectCount += 1) {
      const agent = createPinnedAgent(await rejectOnAbort(signal, checkUrl(url)));
      try {
        const {
          statusCode: status,
          headers,
          body,
        } = await request(url, {
          dispatcher: agent,
          headers: { accept, 'accept-encoding': 'identity', 'user-agent': 'oselya' },
          signal,
        });
        if (!REDIRECT_STATUSES.has(status))
          return { status, headers, body, close: () => agent.destroy() };
        body.on('error', () => undefined).destroy();
        if (redirectCount === MAX_REDIRECTS) {
          throw new FetchError(`The address redirects more than ${MAX_REDIRECTS} times`);
        }
        url = parseUrl(getFirstHeaderValue(headers['location']), url);
      } catch (error) {
        await agent.destroy();
        throw error;
      }
      await agent.destroy();
    }
  };
}

/** Returns the first header value, or an empty string. */
export function getFirstHeaderValue(header: string | string[] | undefined): string {
  return (Array.isArray(header) ? header[0] : header) ?? '';
}

function parseUrl(text: string, base?: URL): URL {
  const url = text === '' ? null : URL.parse(text, base?.href);
  if (url !== null) return url;
  throw new FetchError(
    base === undefined ? 'The address is malformed' : 'The address redirects to a malformed one',
  );
}

/** Creates an agent that connects only to the checked IP addresses. */
function createPinnedAgent(addresses: ResolvedAddress[]): Agent {
  const lookup: LookupFunction = (_hostname, { all }, callback) => {
    const [firstAddress] = addresses;
    if (all === true) callback(null, addresses);
    else callback(null, firstAddress?.address ?? '', firstAddress?.family);
  };
  return new Agent({
    connect: { lookup, timeout: TIMEOUTS_MS.connect },
    headersTimeout: TIMEOUTS_MS.headers,
    bodyTimeout: TIMEOUTS_MS.body,
    allowH2: false,
  });
}
