import type { LookupFunction } from 'node:net';
import { Agent, request } from 'undici';
import { orAborted } from '../async/wait.ts';
import { createAddressCheck, FetchError, type Lookup, type ResolvedAddress } from './address.ts';

const MAX_REDIRECTS = 5;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** Timeouts in milliseconds: of the connection, of the headers, and between bytes. */
const SILENCE_MS = { connect: 10_000, headers: 20_000, body: 20_000 };

/** The answer after redirects; its body is as it was sent. */
export type Answer = Pick<Awaited<ReturnType<typeof request>>, 'headers' | 'body'> & {
  status: number;
  /** Ends the connection. */
  close(): Promise<void>;
};

/**
 * Requests an address from outside, within the rules of `createAddressCheck`, and follows up to five redirects, each
 * checked and pinned again. Close the answer.
 * @throws FetchError for an address that is not allowed; otherwise what the network threw.
 */
export type SafeFetch = (
  url: string,
  options: { signal: AbortSignal; accept?: string },
) => Promise<Answer>;

/** Creates a `SafeFetch`. Specification 001, Errors; Contract 4, Images. */
export function createSafeFetch(options: {
  allow: readonly string[];
  lookup?: Lookup | undefined;
}): SafeFetch {
  const checkAddress = createAddressCheck(options);

  return async (text, { signal, accept = '*/*' }) => {
    let url = parseUrl(text);
    for (let redirects = 0; ; redirects += 1) {
      const addresses = await orAborted(signal, checkAddress(url));
      const agent = pinnedAgent(addresses);
      try {
        const headers = { accept, 'accept-encoding': 'identity', 'user-agent': 'oselya' };
        const answer = await request(url, { dispatcher: agent, headers, signal });
        if (!REDIRECTS.has(answer.statusCode)) {
          const close = () => agent.destroy();
          return { status: answer.statusCode, headers: answer.headers, body: answer.body, close };
        }
        answer.body.on('error', () => undefined).destroy();
        if (redirects === MAX_REDIRECTS) {
          throw new FetchError(`The address redirects more than ${MAX_REDIRECTS} times`);
        }
        url = parseUrl(firstOf(answer.headers['location']), url);
      } catch (error) {
        await agent.destroy();
        throw error;
      }
      await agent.destroy();
    }
  };
}

/** Returns the first value of a header that should come once. */
export function firstOf(header: string | string[] | undefined): string {
  return (Array.isArray(header) ? header[0] : header) ?? '';
}

function parseUrl(text: string, base?: URL): URL {
  const url = text === '' ? null : URL.parse(text, base?.href);
  if (url !== null) return url;
  throw new FetchError(
    base === undefined ? 'The address is malformed' : 'The address redirects to a malformed one',
  );
}

/** Connects to the checked addresses, even if the host's name has others by then. */
function pinnedAgent(addresses: ResolvedAddress[]): Agent {
  const lookup: LookupFunction = (_hostname, { all }, callback) => {
    const [first] = addresses;
    if (all === true) callback(null, addresses);
    else callback(null, first?.address ?? '', first?.family);
  };
  return new Agent({
    connect: { lookup, timeout: SILENCE_MS.connect },
    headersTimeout: SILENCE_MS.headers,
    bodyTimeout: SILENCE_MS.body,
    allowH2: false,
  });
}
