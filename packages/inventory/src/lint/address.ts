import ipaddr from 'ipaddr.js';
import { withoutBrackets } from '../host.ts';
import type { Fields } from './rule.ts';

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
  if (!ipaddr.isValid(name) || /^[\da-fx]+$/.test(name)) return null;
  const range = ipaddr.process(name).range();
  if (range === 'loopback') return 'loopback';
  if (PRIVATE.has(range)) return 'private';
  return range === 'unicast' ? 'global' : null;
}

/** The address in `url`; null when there is none, or it cannot be read. */
export function addressOf({ url }: Fields): URL | null {
  return url === undefined ? null : URL.parse(url);
}
