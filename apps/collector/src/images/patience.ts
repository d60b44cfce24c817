import { ImageError } from './image-error.ts';

/** After so many pictures that it did not send in time a host is not asked for the others of the listing. */
const MOST_TIMEOUTS = 2;

/**
 * How long the pictures of one listing are waited for: a host that holds each of them up is not waited for
 * fifty times over. Those that are left are asked for another time.
 */
export type HostPatience = {
  /** @throws ImageError where the address is not to be asked. */
  check(url: string): void;
  /** Is told why an address could not be had. */
  note(url: string, error: ImageError): void;
};

/**
 * Begins the wait for the pictures of a listing.
 * @param listingMs After so long no further picture is asked for.
 */
export function createPatience(listingMs: number): HostPatience {
  const endsAt = performance.now() + listingMs;
  const timeouts = new Map<string, number>();
  return {
    check(url) {
      const reason =
        performance.now() >= endsAt
          ? 'The pictures before it took too long to fetch'
          : (timeouts.get(hostOf(url)) ?? 0) >= MOST_TIMEOUTS
            ? 'Its host did not send others of the listing in time'
            : undefined;
      if (reason !== undefined) throw new ImageError(reason, { retryable: true });
    },
    note(url, { isTimeout }) {
      const host = hostOf(url);
      if (isTimeout) timeouts.set(host, (timeouts.get(host) ?? 0) + 1);
    },
  };
}

function hostOf(url: string): string {
  return URL.parse(url)?.host ?? url;
}
