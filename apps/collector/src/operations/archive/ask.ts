import type { SafeFetch } from '../../safe-fetch/index.ts';

/** The longest wait for one address, redirects included. */
const TIMEOUT_MS = 15_000;

/** What an address answers: that the listing is gone (404, 410), anything else, or nothing of use. */
export type AddressState =
  | { state: 'gone' | 'present'; status: number }
  | { state: 'unreachable'; status: number | null };

/** Asks an address whether what it stood for is still there. */
export type Ask = (url: string, signal: AbortSignal) => Promise<AddressState>;

/**
 * Asks with GET, since many sites answer HEAD with an error, and hangs up before the body. An address
 * that may not be asked, a host that is silent or out of order, and one that wants to be left alone
 * (408, 425, 429) say nothing about the listing. Contract 4, Operations; Specification 001, Errors.
 * @throws `signal.reason`.
 */
export function createAsk(fetch: SafeFetch, { timeoutMs = TIMEOUT_MS } = {}): Ask {
  return async (url, signal) => {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    let status: number;
    try {
      const answer = await fetch(url, { signal: limited, accept: 'text/html, */*;q=0.5' });
      status = answer.status;
      await answer.close();
    } catch {
      signal.throwIfAborted();
      return { state: 'unreachable', status: null };
    }
    if (status === 404 || status === 410) return { state: 'gone', status };
    const isNoAnswer = status >= 500 || status === 408 || status === 425 || status === 429;
    return { state: isNoAnswer ? 'unreachable' : 'present', status };
  };
}
