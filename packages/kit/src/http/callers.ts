import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv4 } from 'node:net';
import type { FastifyRequest, onRequestHookHandler } from 'fastify';
import ipaddr from 'ipaddr.js';
import { commonProblem } from '../problems.ts';

/**
 * Returns the rate-limit key of a client by its IP address. The key of an IPv4 address is the address itself, also in
 * IPv4-mapped IPv6 notation (RFC 4291 §2.5.5.2). The key of an IPv6 address is its /64 network, because one host may
 * use all of it (RFC 6177 §2). An invalid address is its own key.
 */
export function getClientNetwork(address: string): string {
  if (isIPv4(address)) return address;
  if (!ipaddr.isValid(address)) return address;
  const ip = ipaddr.process(address);
  if (ip instanceof ipaddr.IPv4) return ip.toString();
  return `${new ipaddr.IPv6([...ip.parts.slice(0, 4), 0, 0, 0, 0]).toString()}/64`;
}

const loopbackAddresses = new BlockList();
loopbackAddresses.addSubnet('127.0.0.0', 8, 'ipv4');
loopbackAddresses.addAddress('::1', 'ipv6');

/**
 * Returns whether a host is a loopback host: `localhost`, 127.0.0.0/8 or `::1`.
 * @param host IP address or host name. An IPv6 address may have brackets.
 */
export function isLoopback(host: string): boolean {
  const address = host.replace(/^\[(.*)\]$/, '$1');
  const family = isIP(address);
  if (family === 0) return address === 'localhost';
  return loopbackAddresses.check(address, family === 4 ? 'ipv4' : 'ipv6');
}

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Returns whether a request has an unsafe method and comes from a different origin. Reads `Sec-Fetch-Site`, or `Origin`
 * for older browsers. A request with neither header does not come from a browser.
 * @param publicOrigin Public origin of a service behind a proxy, if it differs from the requested host.
 */
export function isCrossSiteChange(
  { method, headers, protocol, host }: FastifyRequest,
  publicOrigin?: string,
): boolean {
  if (SAFE_METHODS.has(method)) return false;
  const fetchSite = headers['sec-fetch-site'];
  if (fetchSite !== undefined) return fetchSite !== 'same-origin' && fetchSite !== 'none';
  return isForeignOrigin({ headers, protocol, host }, publicOrigin);
}

/**
 * Returns whether a page from a different origin sent a request. Browsers send `Origin` with unsafe methods and
 * WebSocket handshakes.
 */
export function isForeignOrigin(
  { headers: { origin }, protocol, host }: Pick<FastifyRequest, 'headers' | 'protocol' | 'host'>,
  publicOrigin?: string,
): boolean {
  return origin !== undefined && origin !== publicOrigin && origin !== `${protocol}://${host}`;
}

/**
 * Returns whether a request has one `Host` header, which HTTP/1.0 may omit. With several, Node and a proxy may use
 * different hosts. RFC 9112 §3.2.
 */
export function hasSingleHost({
  rawHeaders,
  httpVersion,
}: Pick<IncomingMessage, 'rawHeaders' | 'httpVersion'>): boolean {
  const headerNames = rawHeaders.filter((_, index) => index % 2 === 0);
  const hostCount = headerNames.filter((name) => name.toLowerCase() === 'host').length;
  return hostCount === 1 || (hostCount === 0 && httpVersion === '1.0');
}

/** Rejects requests without a `Host` header, except in HTTP/1.0, or with several. */
export const requireSingleHost: onRequestHookHandler = ({ raw }, _reply, done) => {
  if (hasSingleHost(raw)) return done();
  done(commonProblem('malformed_request', { detail: 'Send exactly one Host header.' }));
};

/** Returns whether two secrets match. The time of the comparison depends only on their lengths (timing attacks). */
export function isSameSecret(receivedSecret: string, expectedSecret: string): boolean {
  const [receivedBytes, expectedBytes] = [Buffer.from(receivedSecret), Buffer.from(expectedSecret)];
  return (
    receivedBytes.length === expectedBytes.length && timingSafeEqual(receivedBytes, expectedBytes)
  );
}
