import dns from 'node:dns/promises';
import ipaddr from 'ipaddr.js';
import { FetchError } from './fetch-error.ts';
import { isGlobalAddress } from './global-address.ts';

/** An IP address and its family, 4 or 6. */
export type ResolvedAddress = { address: string; family: number };

/** Finds all addresses of a host, as `dns.lookup` with `all` does. */
export type Lookup = (hostname: string) => Promise<ResolvedAddress[]>;

/**
 * Decides whether an address may be asked, and which checked addresses to connect to.
 * @throws FetchError where it may not, or where its host has no address.
 */
export type CheckAddress = (url: URL) => Promise<ResolvedAddress[]>;

/**
 * The rules against server-side request forgery: `http` or `https`, no credentials, and every address
 * of the host global or allowed. A host with one bad address among good ones is refused. Connect to the
 * returned addresses, not to the name again: its answer may change. Contract 4, Images.
 * @param allow SSRF_ALLOW: CIDR ranges, addresses and host names that may be asked beside.
 */
export function createAddressCheck(options: {
  allow: readonly string[];
  lookup?: Lookup | undefined;
}): CheckAddress {
  const { lookup = (hostname) => dns.lookup(hostname, { all: true }) } = options;
  const { hosts, ranges } = readAllowList(options.allow);

  const isAllowed = (text: string) => {
    const address = ipaddr.process(text);
    return (
      isGlobalAddress(ipaddr.parse(text)) ||
      ranges.some(
        ([network, bits]) => address.kind() === network.kind() && address.match(network, bits),
      )
    );
  };

  return async (url) => {
    if (url.protocol !== 'http:' && url.protocol !== 'https:') {
      throw new FetchError(`The address must be http or https, not ${url.protocol}`);
    }
    if (url.username !== '' || url.password !== '') {
      throw new FetchError('The address must not hold a user name or password');
    }
    // The parser has made dotted numbers out of decimal, octal and hexadecimal IPv4 hosts.
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
    const addresses = ipaddr.isValid(host)
      ? [{ address: host, family: host.includes(':') ? 6 : 4 }]
      : await resolve(host, lookup);
    if (!hosts.has(host) && !addresses.every(({ address }) => isAllowed(address))) {
      throw new FetchError(
        'The address leads into a private or reserved network; SSRF_ALLOW can allow it',
      );
    }
    return addresses;
  };
}

async function resolve(host: string, lookup: Lookup): Promise<ResolvedAddress[]> {
  let addresses: ResolvedAddress[];
  try {
    addresses = await lookup(host);
  } catch (cause) {
    // A name that its servers do not know for a moment is ENOTFOUND too, as one that there never was.
    throw new FetchError('The host of the address was not found', { retryable: true, cause });
  }
  if (addresses.length === 0) {
    throw new FetchError('The host of the address has no address', { retryable: true });
  }
  return addresses;
}

/** Returns whether a text is a valid entry of SSRF_ALLOW. */
export function isAllowEntry(text: string): boolean {
  return readRange(text) !== undefined || /^[\w.-]+$/.test(text);
}

type Range = ReturnType<typeof ipaddr.parseCIDR>;

function readAllowList(entries: readonly string[]): { hosts: Set<string>; ranges: Range[] } {
  const hosts = new Set<string>();
  const ranges: Range[] = [];
  for (const entry of entries) {
    const range = readRange(entry);
    if (range !== undefined) ranges.push(range);
    else hosts.add(entry.toLowerCase());
  }
  return { hosts, ranges };
}

function readRange(entry: string): Range | undefined {
  if (ipaddr.isValidCIDR(entry)) return ipaddr.parseCIDR(entry);
  // "1.2" and "127.1" are addresses for some programs: only the four-part form is one here.
  if (ipaddr.IPv4.isValidFourPartDecimal(entry)) return [ipaddr.IPv4.parse(entry), 32];
  if (ipaddr.IPv6.isValid(entry)) return [ipaddr.IPv6.parse(entry), 128];
  return undefined;
}
