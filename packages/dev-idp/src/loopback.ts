import { Server } from 'node:http';
import { isLoopback } from '@oselya/kit';

/**
 * Refuses every host but this machine's own: anybody who reaches the provider can sign in as anybody.
 *
 * @param host an address or name, an IPv6 address with or without brackets
 * @throws RangeError when it is not `localhost`, in 127.0.0.0/8 or `::1`
 */
export function assertLoopback(host: string): void {
  if (!isLoopback(host)) {
    throw new RangeError(
      `The development identity provider signs anybody in and so serves this machine only: ` +
        `use 127.0.0.1 instead of "${host}", or a real identity provider.`,
    );
  }
}

/** An HTTP server that listens on loopback hosts only, whoever tells it to listen. */
export class LoopbackServer extends Server {
  /**
   * @param options the form Fastify uses, an object with `host`; other forms are refused
   * @throws RangeError when the host is missing or not a loopback host
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
