import { isIP, isIPv4 } from 'node:net';
import { domainToASCII } from 'node:url';
import ipaddr from 'ipaddr.js';
import type { EndpointRecord } from './record.ts';

/** Default ports of URL schemes (IANA Service Name and Port Number Registry). */
const PORTS: ReadonlyMap<string, number> = new Map(
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

const TLS = new Set(
  'https wss ftps smtps pop3s imaps ldaps rtsps rediss amqps mqtts tls ssl'.split(' '),
);
const UDP = new Set('coap coaps tftp udp dtls quic dhcp mdns ntp snmp wireguard'.split(' '));

const ALIASES = new Map([
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

/** Returns the usual name of a protocol, in lower case. */
export function protocolName(name: string): string {
  const lower = name.trim().toLowerCase();
  return ALIASES.get(lower) ?? lower;
}

/** Tells whether URLs are known to begin with a protocol, given by its usual name. */
export function isScheme(protocol: string): boolean {
  return PORTS.has(protocol);
}

/** Returns the transport of a protocol, given by its usual name; undefined when it is unknown. */
export function transportOf(protocol: string): 'tcp' | 'tls' | 'udp' | undefined {
  if (TLS.has(protocol)) return 'tls';
  if (UDP.has(protocol)) return 'udp';
  return PORTS.has(protocol) || protocol === 'tcp' ? 'tcp' : undefined;
}

/** Returns the usual name of a URL's protocol. */
export function schemeOf({ protocol }: Pick<URL, 'protocol'>): string {
  return protocolName(protocol.slice(0, -1));
}

/** Returns the explicit or default port of a URL; undefined when it is unknown. */
export function portOf(url: Pick<URL, 'protocol' | 'port'>): number | undefined {
  return url.port === '' ? PORTS.get(schemeOf(url)) : Number(url.port);
}

/** Removes the brackets that URLs put around IPv6 addresses. */
export function withoutBrackets(host: string): string {
  return host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
}

/** Puts an IPv6 address in brackets, as URLs have it. */
export function withBrackets(host: string): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
}

/** Tells whether two hosts are equal, however they are written; `1.2.3` is not `1.2.0.3`. */
export function isSameHost(one: string, other: string): boolean {
  return one === other || canonicalHost(one) === canonicalHost(other);
}

function canonicalHost(host: string): string {
  const plain = withoutBrackets(host.trim()).replace(/\.$/, '').toLowerCase();
  if (isIPv6(plain)) return ipaddr.IPv6.parse(plain).toString();
  return asciiHost(plain) || plain;
}

/** Returns a host with an international name in ASCII (RFC 5890 §2.3.2.1); empty when it is no name. */
export function asciiHost(host: string): string {
  return isAscii(host) ? host : domainToASCII(host);
}

/** Tells whether a host without brackets is an IP address; `1.2.3` and `0x7f.1` are not. */
export function isIpAddress(host: string): boolean {
  return isIPv4(host) || isIPv6(host);
}

// `ipaddr.js` throws and catches an error for each text that is no address, which is slow.
function isIPv6(host: string): boolean {
  return host.includes(':') && ipaddr.IPv6.isValid(host);
}

/** Returns the host of a URL as written, with international names in ASCII. The parser rewrites `1.2.3`. */
export function hostIn(written: string, url: URL): string {
  const [, host] =
    /^[a-z][a-z\d+.-]*:\/\/(?:[^/?#]*@)?(\[[^\]]*\]|[^/?#:]*)/i.exec(written.trim()) ?? [];
  return host !== undefined && isAscii(host) ? host : url.hostname;
}

function isAscii(text: string): boolean {
  return /^[\0-\x7f]*$/.test(text);
}

/** A parsed URL; `host` is as written. */
export type Address = Pick<URL, 'protocol' | 'hostname' | 'port'> & { host: string };

/** Parses a URL; returns null when it is none. */
export function readAddress(written: string): Address | null {
  const url = URL.parse(written);
  if (url === null) return null;
  const { protocol, hostname, port } = url;
  return { protocol, hostname, port, host: hostIn(written, url) };
}

/** The network from which an address is reachable. */
export type Reach = 'loopback' | 'private' | 'global';

const PRIVATE = new Set(['private', 'linkLocal', 'uniqueLocal', 'carrierGradeNat']);
/** Names that resolve on one machine or network only (RFC 6761 §6.3, RFC 6762 §3, RFC 8375 §3). */
const LOCAL_NAMES = /(^|\.)(local|home\.arpa|internal|lan)$/;

/** Returns the reach of an IP address or a local name; null for other names and for wildcards. */
export function reachOf(host: string): Reach | null {
  const name = withoutBrackets(host.toLowerCase()).replace(/\.$/, '');
  if (name === 'localhost' || name.endsWith('.localhost')) return 'loopback';
  if (LOCAL_NAMES.test(name)) return 'private';
  if (!isIpAddress(name)) return null;
  const range = ipaddr.process(name).range();
  if (range === 'loopback') return 'loopback';
  if (PRIVATE.has(range)) return 'private';
  return range === 'unicast' ? 'global' : null;
}

/** Tells whether a host may be reachable from the internet: a global address, a wildcard, or a full name. */
export function mayBePublic(host: string): boolean {
  const reach = reachOf(host);
  if (reach !== null) return reach === 'global';
  const name = withoutBrackets(host.trim()).replace(/\.$/, '');
  const [topLevel = '', ...labels] = name.split('.').toReversed();
  return isWildcard(name) || (labels.length > 0 && /\p{L}/u.test(topLevel));
}

/** Tells whether a host stands for all addresses of a machine. */
export function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::' || host === '*';
}

/** Splits a host into the properties of a record: an IP address is its `host`, a name its `domain`. */
export function placeOf(
  written: string,
): Pick<EndpointRecord, 'host' | 'domain'> & { exposure?: 'local' } {
  const host = withoutBrackets(written);
  return {
    ...(reachOf(host) === 'loopback' && { exposure: 'local' }),
    ...(isIP(host) === 0 ? { domain: host } : { host }),
  };
}

/** Where an endpoint accepts connections. */
export type Endpoint = {
  /** A name or an IP address, IPv6 in brackets. */
  host: string;
  port: number;
  /** The usual name of the protocol; empty when the record does not say. */
  protocol: string;
  url: URL | null;
};

/** A name (RFC 1123 §2.1, and underscores), an IPv4 address, or an IPv6 address in brackets. */
const HOST =
  /^([a-z\d_]([a-z\d_-]*[a-z\d_])?(\.[a-z\d_]([a-z\d_-]*[a-z\d_])?)*\.?|\[[\da-f:.]+\])$/i;

/** Returns the endpoint of a record, from its URL or from host or domain and port; null when incomplete. */
export function endpointOf(record: EndpointRecord): Endpoint | null {
  const { url: written = '' } = record;
  const parsed = URL.parse(written);
  const named = parsed === null ? '' : hostIn(written, parsed);
  // "host:port" parses as a URL with the scheme "host".
  const url = named === '' ? null : parsed;
  const host = named || withBrackets(asciiHost(record.host?.trim() || record.domain?.trim() || ''));
  const port = (url === null ? undefined : portOf(url)) ?? record.port;
  if (!HOST.test(host) || !isPort(port)) return null;
  const protocol = url === null ? protocolName(record.protocol ?? '') : schemeOf(url);
  return { host, port, protocol, url };
}

/** Tells whether a number is a port that can be listened on (RFC 6335 §6). */
export function isPort(port: number | undefined): port is number {
  return port !== undefined && port >= 1 && port <= 65_535;
}
