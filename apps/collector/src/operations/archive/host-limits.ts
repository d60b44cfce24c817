import pLimit, { type LimitFunction } from 'p-limit';
import { pause } from '../../async/repeat.ts';

/** How hard hosts are asked. */
export type HostLimitOptions = {
  /** Pieces of work in progress at once. */
  parallel: number;
  /** Of these, with one host. */
  perHost: number;
  /** How long a host is left alone after each piece of work, in milliseconds. */
  pauseMs: number;
};

/**
 * Makes the function that runs work with the host of an address when it is that host's turn: hundreds of
 * addresses of one site must not be a flood for it, nor keep those of other sites waiting.
 */
export function createHostLimits({ parallel, perHost, pauseMs }: HostLimitOptions) {
  const all = pLimit(parallel);
  const hosts = new Map<string, LimitFunction>();

  return <Result>(url: string, signal: AbortSignal, work: () => Promise<Result>) => {
    const host = URL.parse(url)?.host ?? '';
    const limit = hosts.get(host) ?? pLimit(perHost);
    hosts.set(host, limit);
    return limit(async () => {
      // A turn of the host is taken before one of all: whoever waits for its host takes no one's place.
      const result = await all(work);
      if (limit.pendingCount > 0) await pause(pauseMs, signal);
      return result;
    });
  };
}
