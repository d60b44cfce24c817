import { withoutBrackets } from '../host.ts';
import { MAX_HOST_CHARACTERS } from '../limits.ts';
import { portsOf } from './port-range.ts';

/** Where a server listens: at one address, or at all of them where `host` is undefined. */
export type Listened = { host: string | undefined; ports: number[] };

const PORTS = /^\d+(?:-\d+)?$/;

const ADDRESS = /^(\[[\da-f:.]+\]|\*|[\w.-]+)(?::(\d+(?:-\d+)?))?$/i;

/**
 * Reads the address of a `listen` directive: `ADDRESS[:PORT]` or `PORT`, a port being a range as well, and 80 where
 * none is given. Null for a socket of the system, which has none, and for what is no address.
 * https://nginx.org/en/docs/http/ngx_http_core_module.html#listen
 * https://nginx.org/en/docs/stream/ngx_stream_core_module.html#listen
 */
export function readListen(address: string): Listened | null {
  if (address.length > MAX_HOST_CHARACTERS) return null;
  const [, host, written = '80'] = PORTS.test(address)
    ? ['', '*', address]
    : (ADDRESS.exec(address) ?? []);
  const ports = host === undefined ? null : portsOf(written);
  if (host === undefined || ports === null) return null;
  const plain = withoutBrackets(host);
  return { host: ['*', '0.0.0.0', '::'].includes(plain) ? undefined : plain, ports };
}
