import dns from 'node:dns/promises';
import ipaddr from 'ipaddr.js';

/**
 * Thrown for a URL that cannot be fetched. The message may be shown to users, and reveals nothing about the internal
 * network.
 */
export class FetchError extends Error {
  override readonly name = 'FetchError';
  /** Whether a retry may succeed. */
  readonly retryable: boolean;

  constructor(
    message: string,
    { retryable = false, ...options }: ErrorOptions & { retryable?: boolean } = {},
  ) {
    super(message, options);
    this.retryable = retryable;
  }
}

/** An IP address and its family, 4 or 6. */
export type ResolvedAddress = { address: string; family: number };

/** Resolves all IP addresses of a host, like `dns.lookup` with `all`. */
export type Lookup = (hostname: string) => Promise<ResolvedAddress[]>;

/**
 * Creates a check against server-side request forgery, which returns the IP addresses of a URL's host. It throws
 * FetchError unless the URL is `http` or `https`, has no credentials, and its host resolves and is allowed or has only
 * global or allowed addresses. Connect to the returned addresses, because a second lookup may return different ones.
 * Contract 4, Images.
 * @param options.allow SSRF_ALLOW: CIDR ranges, IP addresses and host names that are also allowed.
 */
export function createUrlCheck(options: {
  allow: readonly string[];
  lookup?: Lookup | undefined;
}): (url: URL) => Promise<ResolvedAddress[]> {
  const { allow, lookup = (hostname) => dns.lookup(hostname, { all: true }) } = options;
  const allowedRanges = allow.flatMap((entry) => {
    const range = parseRange(entry);
    return range === undefined ? [] : [range];
  });
  const allowedHosts = new Set(allow.map((entry) => entry.toLowerCase()));

  const isAllowed = (text: string) => {
    const address = ipaddr.process(text);
    return (
      isGlobalAddress(ipaddr.parse(text)) ||
      allowedRanges.some(
        ([network, prefixLength]) =>
          address.kind() === network.kind() && address.match(network, prefixLength),
      )
    );
  };

  return async (url) => {
    if (url.protocol !== 'http:' && url.protocol !== 'https:') {
      throw new FetchError(`The address must be http or https, not ${url.protocol}`);
    }
    if (url.username !== '' || url.password !== '') {
      throw new FetchError('The address must not contain a user name or password');
    }
    // The URL parser has normalized decimal, octal and hexadecimal IPv4 hosts, so they cannot bypass the check.
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
    const addresses = ipaddr.isValid(host)
      ? [{ address: host, family: host.includes(':') ? 6 : 4 }]
      : await resolveHost(host, lookup);
    if (!allowedHosts.has(host) && !addresses.every(({ address }) => isAllowed(address))) {
      throw new FetchError(
        'The address leads into a private or reserved network; SSRF_ALLOW can allow it',
      );
    }
    return addresses;
  };
}

async function resolveHost(host: string, lookup: Lookup): Promise<ResolvedAddress[]> {
  // Every failed lookup can be temporary, even ENOTFOUND, so a retry may succeed.
  const addresses = await lookup(host).catch((cause: unknown) => {
    throw new FetchError('The host of the address was not found', { retryable: true, cause });
  });
  if (addresses.length === 0) {
    throw new FetchError('The host of the address has no address', { retryable: true });
  }
  return addresses;
}

/** Returns whether a string is a valid entry of SSRF_ALLOW. */
export function isValidAllowEntry(text: string): boolean {
  return parseRange(text) !== undefined || /^[\w.-]+$/.test(text);
}

function parseRange(entry: string): ReturnType<typeof ipaddr.parseCIDR> | undefined {
  if (ipaddr.isValidCIDR(entry)) return ipaddr.parseCIDR(entry);
  // Rejects short forms such as "127.1".
  if (ipaddr.IPv4.isValidFourPartDecimal(entry)) return [ipaddr.IPv4.parse(entry), 32];
  if (ipaddr.IPv6.isValid(entry)) return [ipaddr.IPv6.parse(entry), 128];
  return undefined;
}

/**
 * Returns whether an IP address is on the public internet. An IPv4 address that is embedded in an IPv6 address must be
 * global too, because a gateway could translate `64:ff9b::a9fe:a9fe` to 169.254.169.254.
 */
function isGlobalAddress(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (address instanceof ipaddr.IPv4) return address.range() === 'unicast';
  const embeddedAddresses = listEmbeddedAddresses(address);
  if (embeddedAddresses.length > 0) return embeddedAddresses.every(isGlobalAddress);
  // Global addresses are allocated only from 2000::/3 (RFC 3587).
  return address.range() === 'unicast' && (getGroup(address, 0) & 0xe000) === 0x2000;
}

function listEmbeddedAddresses(address: ipaddr.IPv6): ipaddr.IPv4[] {
  switch (address.range()) {
    case 'ipv4Mapped':
      return [address.toIPv4Address()];
    case 'rfc6052':
      // Only the well-known prefix 64:ff9b::/96. Each network defines the layout of 64:ff9b:1::/48.
      return getGroup(address, 2) === 0 ? [getIpv4(address, 6)] : [];
    case '6to4':
      return [getIpv4(address, 1)];
    case 'teredo':
      // Addresses of the server and, with inverted bits, of the client (RFC 4380 §4).
      return [getIpv4(address, 2), getIpv4(address, 6, 0xffff)];
    default:
      return isIsatap(address) ? [getIpv4(address, 6)] : [];
  }
}

/** Returns whether the interface identifier is 0000:5efe or 0200:5efe before an IPv4 address (RFC 5214 §6.1). */
function isIsatap(address: ipaddr.IPv6): boolean {
  return getGroup(address, 5) === 0x5efe && (getGroup(address, 4) & 0xfdff) === 0;
}

function getIpv4(address: ipaddr.IPv6, index: number, mask = 0): ipaddr.IPv4 {
  const [high, low] = [getGroup(address, index) ^ mask, getGroup(address, index + 1) ^ mask];
  return new ipaddr.IPv4([high >> 8, high & 0xff, low >> 8, low & 0xff]);
}

const getGroup = (address: ipaddr.IPv6, index: number) => address.parts[index] ?? 0;
