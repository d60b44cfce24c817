import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import type { FastifyRequest, onRequestHookHandler } from 'fastify';
import ipaddr from 'ipaddr.js';
import { commonProblem } from '../problems.ts';

/** The least of IPv6 that one subscriber gets. RFC 6177 §2. */
const SUBSCRIBER_BITS = 64;

/** The bits of one part of an IPv6 address. */
const PART_BITS = 16;

/**
 * Returns the key of a client where uses are counted by address: an IPv4 address, also one written as IPv6
 * (RFC 4291 §2.5.5.2), or the /64 of an IPv6 address, since one host may use all of it. Other text is its own key.
 */
export function clientNetwork(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  const parts = parsed.parts.map((part, index) => (index < SUBSCRIBER_BITS / PART_BITS ? part : 0));
  return `${new ipaddr.IPv6(parts).toString()}/${SUBSCRIBER_BITS}`;
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/**
 * Returns whether a host is reachable from this machine only: `localhost`, 127.0.0.0/8 or `::1`.
 * @param host An address or a name; an IPv6 address with or without brackets.
 */
export function isLoopback(host: string): boolean {
  const address = host.replace(/^\[(.*)\]$/, '$1');
  const family = isIP(address);
  if (family === 0) return address === 'localhost';
  return loopback.check(address, family === 4 ? 'ipv4' : 'ipv6');
}

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Returns whether a request may change something and comes from a page of another origin. Browsers tell that in
 * `Sec-Fetch-Site`, older ones in `Origin` alone; without either the client is no browser.
 * @param publicOrigin The origin of the service behind a proxy, where it differs from the requested host.
 */
export function isCrossSiteChange(
  { method, headers, protocol, host }: FastifyRequest,
  publicOrigin?: string,
): boolean {
  if (SAFE_METHODS.has(method)) return false;
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site !== 'same-origin' && site !== 'none';
  return isForeignOrigin({ headers, protocol, host }, publicOrigin);
}

/**
 * Returns whether a page of another origin sent a request, by `Origin` alone: browsers send it with every change and
 * every WebSocket handshake.
 * @param publicOrigin As in {@link isCrossSiteChange}.
 */
export function isForeignOrigin(
  { headers: { origin }, protocol, host }: Pick<FastifyRequest, 'headers' | 'protocol' | 'host'>,
  publicOrigin?: string,
): boolean {
  return origin !== undefined && origin !== publicOrigin && origin !== `${protocol}://${host}`;
}

/** Returns whether a request has at most one `Host`: of several, Node reads the first and a proxy may read the last. */
export function namesOneHost({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): boolean {
  const names = rawHeaders.filter((_, index) => index % 2 === 0);
  return names.filter((name) => name.toLowerCase() === 'host').length < 2;
}

/** Rejects requests with several `Host` headers. RFC 9112 §3.2. */
export const rejectSeveralHosts: onRequestHookHandler = ({ raw }, _reply, done) => {
  if (namesOneHost(raw)) return done();
  done(commonProblem('malformed_request', { detail: 'Send one Host header: there are several.' }));
};

/** Compares two texts in a time that does not reveal where they differ. */
export function isSameSecret(one: string, other: string): boolean {
  const [first, second] = [Buffer.from(one), Buffer.from(other)];
  return first.length === second.length && timingSafeEqual(first, second);
}
