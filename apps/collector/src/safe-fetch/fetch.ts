import type { LookupFunction } from 'node:net';
import { Agent, request } from 'undici';
import { createAddressCheck, type Lookup, type ResolvedAddress } from './address.ts';
import { FetchError } from './fetch-error.ts';

const MAX_REDIRECTS = 5;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** The longest silence, in milliseconds, before a connection, the headers, and between bytes. */
const SILENCE_MS = { connect: 10_000, headers: 20_000, body: 20_000 };

/** What came after redirects; the body is as it was sent, compressed or not. */
export type Answer = Pick<Awaited<ReturnType<typeof request>>, 'headers' | 'body'> & {
  status: number;
  /** Ends the connection, whatever is still to come. */
  close(): Promise<void>;
};

/**
 * Asks an address that somebody else named for what it has, within the rules of `createAddressCheck`, and
 * follows up to five redirects, each of which is checked and pinned anew. The answer has to be closed.
 * @throws FetchError for an address that may not be asked; otherwise what the network threw.
 */
export type SafeFetch = (
  url: string,
  options: { signal: AbortSignal; accept?: string },
) => Promise<Answer>;

/**
 * Makes the function that asks addresses of others' choice. Specification 001, Errors; Contract 4, Images.
 * @param options See `createAddressCheck`.
 */
export function createSafeFetch(options: {
  allow: readonly string[];
  lookup?: Lookup | undefined;
}): SafeFetch {
  const checkAddress = createAddressCheck(options);

  return async (text, { signal, accept = '*/*' }) => {
    let url = parseUrl(text);
    for (let redirects = 0; ; redirects += 1) {
      const addresses = await until(signal, checkAddress(url));
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
          throw new FetchError(`The address leads on more than ${MAX_REDIRECTS} times`);
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

/** The value of a header that should come once. */
export function firstOf(header: string | string[] | undefined): string {
  return (Array.isArray(header) ? header[0] : header) ?? '';
}

function parseUrl(text: string, base?: URL): URL {
  const url = text === '' ? null : URL.parse(text, base?.href);
  if (url !== null) return url;
  throw new FetchError(
    base === undefined ? 'The address is malformed' : 'It leads on to no address',
  );
}

/** Connects to the addresses that were checked, whatever the host's name means by then. */
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

/** A look-up cannot be stopped, but nobody has to wait for it. */
async function until<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
