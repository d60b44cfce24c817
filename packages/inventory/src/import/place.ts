import { isIP } from 'node:net';
import { withoutBrackets } from '../host.ts';
import { reachOf } from '../lint/address.ts';
import type { Found } from './draft.ts';

/** Where a record has what a source says of a host. */
export type Place = Pick<Found, 'exposure' | 'host' | 'domain'>;

/**
 * An IP address is the `host` of an endpoint, a name its `domain`, each as it is written; what only its own machine
 * reaches is local.
 */
export function placeOf(written: string): Place {
  const host = withoutBrackets(written);
  return {
    exposure: reachOf(host) === 'loopback' ? 'local' : undefined,
    ...(isIP(host) === 0 ? { domain: host } : { host }),
  };
}
