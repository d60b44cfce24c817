import ipaddr from 'ipaddr.js';

/**
 * Whether an address belongs to a host of the public internet. IPv6 addresses that stand for an IPv4
 * address (mapped, NAT64, 6to4, Teredo, ISATAP) are judged by what they stand for: a gateway on the
 * way could unpack `64:ff9b::a9fe:a9fe` into 169.254.169.254. Contract 4, Images.
 */
export function isGlobalAddress(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (address instanceof ipaddr.IPv4) return address.range() === 'unicast';
  const embedded = embeddedAddresses(address);
  if (embedded.length > 0) return embedded.every(isGlobalAddress);
  // 2000::/3 is all that has been given out for global use (RFC 4291 §2.4).
  return address.range() === 'unicast' && (part(address, 0) & 0xe000) === 0x2000;
}

function embeddedAddresses(address: ipaddr.IPv6): ipaddr.IPv4[] {
  switch (address.range()) {
    case 'ipv4Mapped':
      return [address.toIPv4Address()];
    case 'rfc6052':
      // The well-known prefix 64:ff9b::/96; what a network does behind 64:ff9b:1::/48 is its own.
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
