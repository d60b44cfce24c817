import { Server } from 'node:http';
import { BlockList, isIP } from 'node:net';

const loopbackAddresses = new BlockList();
loopbackAddresses.addSubnet('127.0.0.0', 8, 'ipv4');
loopbackAddresses.addAddress('::1', 'ipv6');

/**
 * Refuses every host but this machine's own: anybody who reaches the provider can sign in as anybody.
 *
 * @param host an address or name, an IPv6 address with or without brackets
 * @throws {RangeError} when it is not `localhost`, in 127.0.0.0/8 or `::1`
 */
export function assertLoopback(host: string): void {
  if (!isLoopback(host)) {
    throw new RangeError(
      `The development identity provider signs anybody in and so serves this machine only: ` +
        `use 127.0.0.1 instead of "${host}", or a real identity provider.`,
    );
  }
}

function isLoopback(host: string): boolean {
  const address = host.replace(/^\[(.*)\]$/, '$1');
  const family = isIP(address);
  if (family === 0) return address === 'localhost';
  return loopbackAddresses.check(address, family === 4 ? 'ipv4' : 'ipv6');
}

/** An HTTP server that listens on loopback hosts only, whoever tells it to listen. */
export class LoopbackServer extends Server {
  /**
   * @param options the form Fastify uses, an object with `host`; other forms are refused
   * @throws {RangeError} when the host is missing or not a loopback host
   */
  override listen(options?: unknown): this {
    if (typeof options !== 'object' || options === null || !('host' in options)) {
      throw new RangeError('The development identity provider listens on a named loopback host.');
    }
    const host = String(options.host);
    assertLoopback(host);
    return super.listen({ ...options, host });
  }
}
