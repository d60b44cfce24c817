import { asciiHost, hostIn, withBrackets } from './host.ts';
import type { EndpointRecord } from './record.ts';
import { portOf, protocolName, schemeOf } from './url.ts';

/** Where an endpoint can be asked, as far as its record says so. */
export type Endpoint = {
  /** A name or an IP address, IPv6 in brackets. */
  host: string;
  port: number;
  /** The usual name of its protocol: that of its address, else what the record says; empty where it says nothing. */
  protocol: string;
  /** The address, where the record has one that names a host. */
  url: URL | null;
};

/** A name (RFC 1123 §2.1, and underscores as in service names), an IPv4 address, or an IPv6 one in brackets. */
const HOST =
  /^([a-z\d_]([a-z\d_-]*[a-z\d_])?(\.[a-z\d_]([a-z\d_-]*[a-z\d_])?)*\.?|\[[\da-f:.]+\])$/i;

/**
 * Reads where a record's endpoint is: from its URL, else from host or domain and port. Null where it does
 * not say both, or says something that is no host and port.
 */
export function endpointOf(record: EndpointRecord): Endpoint | null {
  const { url: written = '' } = record;
  const address = URL.parse(written);
  const named = address === null ? '' : hostIn(written, address);
  // "host:port" reads as an address with the scheme "host".
  const url = named === '' ? null : address;
  const host = named || withBrackets(asciiHost(record.host?.trim() || record.domain?.trim() || ''));
  const port = (url === null ? undefined : portOf(url)) ?? record.port;
  if (!HOST.test(host) || port === undefined || port < 1 || port > 65_535) return null;
  return {
    host,
    port,
    protocol: url === null ? protocolName(record.protocol ?? '') : schemeOf(url),
    url,
  };
}
