import { BlockList, isIP } from 'node:net';

const addresses = new BlockList();
addresses.addSubnet('127.0.0.0', 8, 'ipv4');
addresses.addAddress('::1', 'ipv6');

/**
 * Whether a host can be reached from this machine only: `localhost`, 127.0.0.0/8 or `::1`.
 * @param host An address or a name; an IPv6 address with or without brackets.
 */
export function isLoopback(host: string): boolean {
  const address = host.replace(/^\[(.*)\]$/, '$1');
  const family = isIP(address);
  if (family === 0) return address === 'localhost';
  return addresses.check(address, family === 4 ? 'ipv4' : 'ipv6');
}
