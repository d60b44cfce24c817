import { asciiHost, isIpAddress, withoutBrackets } from '../host.ts';
import type { EndpointRecord } from '../record.ts';
import type { Exported } from './targets.ts';

/** A name as hosts files have it (RFC 952, RFC 1123 §2.1). */
const NAME = /^[a-z\d]([a-z\d-]*[a-z\d])?(\.[a-z\d]([a-z\d-]*[a-z\d])?)*$/i;

/** Lines of a hosts file: each address with the domains that records give it, in the order of the records. */
export function hostsLines(records: readonly EndpointRecord[]): Exported<string> {
  const names = new Map<string, Set<string>>();
  let leftOut = 0;
  for (const { host = '', domain = '' } of records) {
    const address = withoutBrackets(host);
    const name = asciiHost(domain.trim()).replace(/\.$/, '').toLowerCase();
    if (!isIpAddress(address) || address.includes('%') || !NAME.test(name)) {
      leftOut += 1;
      continue;
    }
    const known = names.get(address) ?? new Set();
    names.set(address, known.add(name));
  }
  return {
    entries: Array.from(names, ([address, known]) => `${address}\t${[...known].join(' ')}`),
    leftOut,
    withCredentials: 0,
  };
}
