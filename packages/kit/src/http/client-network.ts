import ipaddr from 'ipaddr.js';

/** What one subscriber is given of IPv6, at the least. RFC 6177 §2. */
const SUBSCRIBER_BITS = 64;

/** The bits of one part of an IPv6 address. */
const PART_BITS = 16;

/**
 * What stands for one client where uses are counted by address: an IPv4 address by itself, and the /64
 * of an IPv6 one, of which a single host may use 2^64. IPv4 that is written as IPv6 is that IPv4
 * (RFC 4291 §2.5.5.2). What is no address, as a proxy may name one, stands for itself.
 */
export function clientNetwork(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  const parts = parsed.parts.map((part, index) => (index < SUBSCRIBER_BITS / PART_BITS ? part : 0));
  return `${new ipaddr.IPv6(parts).toString()}/${SUBSCRIBER_BITS}`;
}
