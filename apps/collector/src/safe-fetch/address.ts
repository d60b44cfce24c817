import dns from 'node:dns/promises';
import ipaddr from 'ipaddr.js';

/** A URL cannot be fetched. The message is public and reveals nothing about the internal network. */
export class FetchError extends Error {
  override readonly name = 'FetchError';
  /** Whether a retry may succeed. */
  readonly retryable: boolean;

  constructor(message: string, options: { retryable?: boolean; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.retryable = options.retryable ?? false;
  }
}

/** An IP address and its family, 4 or 6. */
export type ResolvedAddress = { address: string; family: number };

/** Resolves all IP addresses of a host, like `dns.lookup` with `all`. */
export type Lookup = (hostname: string) => Promise<ResolvedAddress[]>;

/**
 * Checks a URL, and returns the IP addresses to connect to.
 * @throws FetchError if the URL is not allowed, or its host has no IP address.
 */
export type CheckUrl = (url: URL) => Promise<ResolvedAddress[]>;

/**
 * Creates the check against server-side request forgery: `http` or `https`, no credentials, and every address of
 * the host
 * global or allowed. One bad address rejects the host. Connect to the returned addresses, not to the name again: its
 * response may change. Contract 4, Images.
 * @param options.allow SSRF_ALLOW: CIDR ranges, IP addresses and host names that are also allowed.
 */
export function createUrlCheck(options: {
  allow: readonly string[];
  lookup?: Lookup | undefined;
}): CheckUrl {
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
    // The URL parser has normalized decimal, octal and hexadecimal IPv4 hosts.
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
    // ENOTFOUND can be temporary, so a retry may succeed.
    throw new FetchError('The host of the address was not found', { retryable: true, cause });
  }
  if (addresses.length === 0) {
    throw new FetchError('The host of the address has no address', { retryable: true });
  }
  return addresses;
}

/** Returns whether a string is a valid entry of SSRF_ALLOW. */
export function isValidAllowEntry(text: string): boolean {
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
  // Reject short forms such as "127.1": accept only four-part IPv4 addresses.
  if (ipaddr.IPv4.isValidFourPartDecimal(entry)) return [ipaddr.IPv4.parse(entry), 32];
  if (ipaddr.IPv6.isValid(entry)) return [ipaddr.IPv6.parse(entry), 128];
  return undefined;
}

/**
 * Returns whether an IP address is on the public internet. For IPv6 addresses with an embedded IPv4 address,
 * checks the IPv4 address: a gateway could translate `64:ff9b::a9fe:a9fe` to 169.254.169.254.
 */
function isGlobalAddress(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (address instanceof ipaddr.IPv4) return address.range() === 'unicast';
  const embedded = embeddedAddresses(address);
  if (embedded.length > 0) return embedded.every(isGlobalAddress);
  // 2000::/3 is the range for global use (RFC 4291 §2.4).
  return address.range() === 'unicast' && (part(address, 0) & 0xe000) === 0x2000;
}

function embeddedAddresses(address: ipaddr.IPv6): ipaddr.IPv4[] {
  switch (address.range()) {
    case 'ipv4Mapped':
      return [address.toIPv4Address()];
    case 'rfc6052':
      // The well-known prefix 64:ff9b::/96; each network defines what is behind 64:ff9b:1::/48.
      return part(address, 2) === 0 ? [ipv4At(address, 6)] : [];
    case '6to4':
      return [ipv4At(address, 1)];
    case 'teredo':
      // The server, and the client with its bits flipped (RFC 4380 §4).
      return [ipv4At(address, 2), ipv4At(address, 6, 0xffff)];
    default:
      return isIsatap(address) ? [ipv4At(address, 6)] : [];
  }
}

/** RFC 5214 §6.1: the interface identifier is 0000:5efe or 0200:5efe and an IPv4 address. */
function isIsatap(address: ipaddr.IPv6): boolean {
  return part(address, 5) === 0x5efe && (part(address, 4) & 0xfdff) === 0;
}

function ipv4At(address: ipaddr.IPv6, index: number, flip = 0): ipaddr.IPv4 {
  const [high, low] = [part(address, index) ^ flip, part(address, index + 1) ^ flip];
  return new ipaddr.IPv4([high >> 8, high & 0xff, low >> 8, low & 0xff]);
}

function part(address: ipaddr.IPv6, index: number): number {
  return address.parts[index] ?? 0;
}
