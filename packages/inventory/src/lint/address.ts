import ipaddr from 'ipaddr.js';
import { hostIn, isIpAddress, withoutBrackets } from '../host.ts';

/** From where an address can be reached, as far as the address itself tells. */
export type Reach = 'loopback' | 'private' | 'global';

const PRIVATE = new Set(['private', 'linkLocal', 'uniqueLocal', 'carrierGradeNat']);

/** Names that are resolved on one machine or one network only (RFC 6761 §6.3, RFC 6762 §3, RFC 8375 §3). */
const LOCAL_NAMES = /(^|\.)(local|home\.arpa|internal|lan)$/;

/**
 * Tells how far an IP address, or a name that is known to be local, reaches; null for other names, for
 * wildcards such as 0.0.0.0, and for what is neither.
 */
export function reachOf(host: string): Reach | null {
  const name = withoutBrackets(host.toLowerCase()).replace(/\.$/, '');
  if (name === 'localhost' || name.endsWith('.localhost')) return 'loopback';
  if (LOCAL_NAMES.test(name)) return 'private';
  if (!isIpAddress(name)) return null;
  const range = ipaddr.process(name).range();
  if (range === 'loopback') return 'loopback';
  if (PRIVATE.has(range)) return 'private';
  return range === 'unicast' ? 'global' : null;
}

/** What a server that listens everywhere is told to listen at. */
const EVERYWHERE = new Set(['0.0.0.0', '::', '*']);

/**
 * Whether the internet may lead to a host, as far as its name or address tells: to a global address, to all addresses
 * of a machine, and to a name with a point in it that is not known to be local. It says no of `nas`, `nas.lan`,
 * `10.0.0.1`, and of what is neither a name nor an address.
 */
export function mayBePublic(host: string): boolean {
  const reach = reachOf(host);
  if (reach !== null) return reach === 'global';
  const name = withoutBrackets(host.trim()).replace(/\.$/, '');
  const [last = '', ...before] = name.split('.').toReversed();
  return EVERYWHERE.has(name) || (before.length > 0 && /\p{L}/u.test(last));
}

/** What rules ask of an address; `host` is as it is written there. */
export type Address = Pick<URL, 'protocol' | 'hostname' | 'port'> & { host: string };

/** An address that the URL Standard takes as it is written: its host is no number and has no punycode to be checked. */
const PLAIN =
  /^((?:http|ws)s?:)\/\/((?:[a-z\d-]+\.)*[a-z-][a-z\d-]*)(?::([1-9]\d{0,3}))?(?:$|[/?#])/;

let last: { written: string; address: Address | null } = { written: '', address: null };

/** Reads an address; null where it is none. It keeps the last one, as several rules ask for that of a record. */
export function readAddress(written: string): Address | null {
  if (last.written !== written) last = { written, address: parseAddress(written) };
  return last.address;
}

function parseAddress(written: string): Address | null {
  const [, protocol, host, port = ''] = PLAIN.exec(written) ?? [];
  if (protocol !== undefined && host !== undefined && !host.includes('xn--')) {
    return { protocol, hostname: host, port, host };
  }
  const url = URL.parse(written);
  // The parts of a URL are not its own properties.
  return (
    url && {
      protocol: url.protocol,
      hostname: url.hostname,
      port: url.port,
      host: hostIn(written, url),
    }
  );
}
