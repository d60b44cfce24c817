import { isIP, isIPv4 } from 'node:net';
import { domainToASCII } from 'node:url';
import ipaddr from 'ipaddr.js';
import type { EndpointRecord } from './record.ts';

/** Default ports by URL scheme (IANA Service Name and Port Number Registry). */
const DEFAULT_PORTS: ReadonlyMap<string, number> = new Map(
  `http:80 https:443 ws:80 wss:443 ftp:21 ftps:990 ssh:22 sftp:22 telnet:23 smtp:25 smtps:465
  pop3:110 pop3s:995 imap:143 imaps:993 ldap:389 ldaps:636 rtsp:554 rtsps:322 postgresql:5432
  mysql:3306 mongodb:27017 redis:6379 rediss:6379 nats:4222 amqp:5672 amqps:5671 mqtt:1883
  mqtts:8883 coap:5683 coaps:5684 tftp:69`
    .split(/\s+/)
    .map((entry): [string, number] => {
      const [name = '', port] = entry.split(':');
      return [name, Number(port)];
    }),
);

const TLS_PROTOCOLS = new Set(
  'https wss ftps smtps pop3s imaps ldaps rtsps rediss amqps mqtts tls ssl'.split(' '),
);
const UDP_PROTOCOLS = new Set(
  'coap coaps tftp udp dtls quic dhcp mdns ntp snmp wireguard'.split(' '),
);

const PROTOCOL_ALIASES = new Map([
  ['postgres', 'postgresql'],
  ['websocket', 'ws'],
  ['websockets', 'ws'],
  ['mongo', 'mongodb'],
  ['pop', 'pop3'],
  ['http/1.1', 'http'],
  ['h2', 'https'],
  ['http/2', 'https'],
  ['http/3', 'https'],
]);

/** Returns the canonical lower-case name of a protocol. */
export function normalizeProtocol(name: string): string {
  const lowerCaseName = name.trim().toLowerCase();
  return PROTOCOL_ALIASES.get(lowerCaseName) ?? lowerCaseName;
}

/** Returns whether a normalized protocol name is a known URL scheme. */
export function isUrlScheme(protocol: string): boolean {
  return DEFAULT_PORTS.has(protocol);
}

/** Returns the transport of a normalized protocol name, or undefined if the transport is unknown. */
export function getTransport(protocol: string): 'tcp' | 'tls' | 'udp' | undefined {
  if (TLS_PROTOCOLS.has(protocol)) return 'tls';
  if (UDP_PROTOCOLS.has(protocol)) return 'udp';
  return isUrlScheme(protocol) || protocol === 'tcp' ? 'tcp' : undefined;
}

/** Returns the canonical name of a URL's protocol. */
export function getScheme({ protocol }: Pick<URL, 'protocol'>): string {
  return normalizeProtocol(protocol.slice(0, -1));
}

/** Returns the explicit or default port of a URL, or undefined if the scheme has no known port. */
export function getPort(url: Pick<URL, 'protocol' | 'port'>): number | undefined {
  return url.port === '' ? DEFAULT_PORTS.get(getScheme(url)) : Number(url.port);
}

/** Removes the brackets around an IPv6 address. */
export function removeBrackets(host: string): string {
  return host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
}

/** Adds brackets to an IPv6 address, as URLs require. */
export function addBrackets(host: string): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
}

/** Returns whether two notations name the same host. `1.2.3` and `1.2.0.3` differ. */
export function isSameHost(firstHost: string, secondHost: string): boolean {
  return firstHost === secondHost || canonicalizeHost(firstHost) === canonicalizeHost(secondHost);
}

function canonicalizeHost(host: string): string {
  const normalizedHost = removeBrackets(host.trim()).replace(/\.$/, '').toLowerCase();
  if (isIPv6(normalizedHost)) return ipaddr.IPv6.parse(normalizedHost).toString();
  return toAsciiHost(normalizedHost) || normalizedHost;
}

/**
 * Converts an internationalized host name to ASCII (RFC 5890 §2.3.2.1). Returns an empty string if it is invalid.
 * Returns ASCII text unchanged, without validation.
 */
export function toAsciiHost(host: string): string {
  return isAscii(host) ? host : domainToASCII(host);
}

/** Returns whether a host without brackets is an IP address. Rejects short forms such as `1.2.3` and `0x7f.1`. */
export function isIpAddress(host: string): boolean {
  return isIPv4(host) || isIPv6(host);
}

// Looks for a colon first, because `ipaddr.js` throws and catches an error for each invalid address, which is slow.
function isIPv6(host: string): boolean {
  return host.includes(':') && ipaddr.IPv6.isValid(host);
}

/**
 * Returns the host of a URL as written, because the URL parser rewrites hosts such as `1.2.3`. Internationalized names
 * are returned in Punycode.
 */
export function getWrittenHost(writtenUrl: string, url: URL): string {
  const [, host] =
    /^[a-z][a-z\d+.-]*:\/\/(?:[^/?#]*@)?(\[[^\]]*\]|[^/?#:]*)/i.exec(writtenUrl.trim()) ?? [];
  return host !== undefined && isAscii(host) ? host : url.hostname;
}

function isAscii(text: string): boolean {
  return /^[\0-\x7f]*$/.test(text);
}

/** Parsed URL. Its `host` keeps the original notation, except that internationalized names are in Punycode. */
export type ParsedUrl = Pick<URL, 'protocol' | 'hostname' | 'port'> & { host: string };

/** Parses a URL. Returns null if it is invalid. */
export function parseUrl(writtenUrl: string): ParsedUrl | null {
  const url = URL.parse(writtenUrl);
  if (url === null) return null;
  const { protocol, hostname, port } = url;
  return { protocol, hostname, port, host: getWrittenHost(writtenUrl, url) };
}

/** Network from which a host is reachable. */
type NetworkScope = 'loopback' | 'private' | 'global';

const PRIVATE_RANGES = new Set(['private', 'linkLocal', 'uniqueLocal', 'carrierGradeNat']);
/** Names that resolve only on one network (RFC 6762 §3, RFC 8375 §3; `internal` and `lan` by convention). */
const LOCAL_NAME_PATTERN = /(^|\.)(local|home\.arpa|internal|lan)$/;

/** Returns the network scope of an IP address or a local name; null for other names and for reserved addresses. */
export function getNetworkScope(host: string): NetworkScope | null {
  const name = removeBrackets(host.toLowerCase()).replace(/\.$/, '');
  if (name === 'localhost' || name.endsWith('.localhost')) return 'loopback';
  if (LOCAL_NAME_PATTERN.test(name)) return 'private';
  if (!isIpAddress(name)) return null;
  const range = ipaddr.process(name).range();
  if (range === 'loopback') return 'loopback';
  if (PRIVATE_RANGES.has(range)) return 'private';
  return range === 'unicast' ? 'global' : null;
}

/** Returns whether a host may be reachable from the internet: a global address, a wildcard or a public domain name. */
export function canBePublic(host: string): boolean {
  const scope = getNetworkScope(host);
  if (scope !== null) return scope === 'global';
  const name = removeBrackets(host.trim()).replace(/\.$/, '');
  const [topLevel = '', ...labels] = name.split('.').toReversed();
  return isWildcardHost(name) || (labels.length > 0 && /\p{L}/u.test(topLevel));
}

/** Returns whether a host stands for all addresses of a machine. */
export function isWildcardHost(host: string): boolean {
  return host === '0.0.0.0' || host === '::' || host === '*';
}

/** Returns the record properties for a host: `host` for an IP address, `domain` for a name, `exposure` for loopback. */
export function toHostProperties(
  writtenHost: string,
): Pick<EndpointRecord, 'host' | 'domain'> & { exposure?: 'local' } {
  const host = removeBrackets(writtenHost);
  return {
    ...(getNetworkScope(host) === 'loopback' && { exposure: 'local' }),
    ...(isIP(host) === 0 ? { domain: host } : { host }),
  };
}

/** Network location at which an endpoint accepts connections. */
export type Endpoint = {
  /** Name or IP address. IPv6 addresses are in brackets. */
  host: string;
  port: number;
  /** Normalized protocol name. Empty if the record does not name one. */
  protocol: string;
  url: URL | null;
};

/** A name (RFC 1123 §2.1, with underscores allowed), an IPv4 address, or an IPv6 address in brackets. */
const HOST_PATTERN =
  /^([a-z\d_]([a-z\d_-]*[a-z\d_])?(\.[a-z\d_]([a-z\d_-]*[a-z\d_])?)*\.?|\[[\da-f:.]+\])$/i;

/**
 * Returns the endpoint from a record's URL, or from its host and port. Returns null if the host or port is missing or
 * invalid.
 */
export function parseEndpoint(record: EndpointRecord): Endpoint | null {
  const { url: writtenUrl = '' } = record;
  const parsedUrl = URL.parse(writtenUrl);
  const urlHost = parsedUrl === null ? '' : getWrittenHost(writtenUrl, parsedUrl);
  // "host:port" parses as a URL with the scheme "host".
  const url = urlHost === '' ? null : parsedUrl;
  const host =
    urlHost || addBrackets(toAsciiHost(record.host?.trim() || record.domain?.trim() || ''));
  const port = (url === null ? undefined : getPort(url)) ?? record.port;
  if (!HOST_PATTERN.test(host) || !isValidPort(port)) return null;
  const protocol = url === null ? normalizeProtocol(record.protocol ?? '') : getScheme(url);
  return { host, port, protocol, url };
}

/** Returns whether a number is a valid port (RFC 6335 §6). */
export function isValidPort(port: number | undefined): port is number {
  return port !== undefined && port >= 1 && port <= 65_535;
}
