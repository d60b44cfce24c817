import { isIPv4 } from 'node:net';
import { domainToASCII } from 'node:url';
import ipaddr from 'ipaddr.js';

/** A host without the brackets that URLs put around IPv6 addresses. */
export function withoutBrackets(host: string): string {
  return host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
}

/** A host as URLs have it: an IPv6 address in brackets. */
export function withBrackets(host: string): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
}

/**
 * A host in the one form in which equal ones are equal: in lower case, without a last point, international
 * names in ASCII, IPv6 addresses in their usual form. What merely resembles an address, such as `1.2.3`,
 * stays as it is.
 */
export function canonicalHost(host: string): string {
  const plain = withoutBrackets(host.trim()).replace(/\.$/, '').toLowerCase();
  if (isIPv6(plain)) return ipaddr.IPv6.parse(plain).toString();
  return asciiHost(plain) || plain;
}

/** Whether two hosts are equal, however they are written. */
export function isSameHost(one: string, other: string): boolean {
  return one === other || canonicalHost(one) === canonicalHost(other);
}

/** A host with an international name in ASCII, as it is asked for (RFC 5890 §2.3.2.1); empty where that is no name. */
export function asciiHost(host: string): string {
  return isAscii(host) ? host : domainToASCII(host);
}

/** Whether a host, without brackets, is an IP address in its usual form; `1.2.3` and `0x7f.1` merely resemble one. */
export function isIpAddress(host: string): boolean {
  return isIPv4(host) || isIPv6(host);
}

/** Guards `ipaddr.js`, which throws and catches an error for each text that is no address. */
function isIPv6(host: string): boolean {
  return host.includes(':') && ipaddr.IPv6.isValid(host);
}

/**
 * The host that a URL names, as it is written there; only international names are in ASCII, which is how they
 * are asked for. The host of a parsed URL is another one where it resembles an address: there `1.2.3` is
 * `1.2.0.3`.
 */
export function hostIn(written: string, url: URL): string {
  const [, host] =
    /^[a-z][a-z\d+.-]*:\/\/(?:[^/?#]*@)?(\[[^\]]*\]|[^/?#:]*)/i.exec(written.trim()) ?? [];
  return host !== undefined && isAscii(host) ? host : url.hostname;
}

function isAscii(text: string): boolean {
  return /^[\0-\x7f]*$/.test(text);
}
