import ipaddr from 'ipaddr.js';
import type { EndpointRecord } from '../record.ts';
import { type Reach, reachOf } from '../lint/address.ts';
import { listed } from './site.ts';

/**
 * The `allow` and `deny` of one level, which nginx asks in their order.
 * https://nginx.org/en/docs/http/ngx_http_access_module.html
 */
export class AccessRules {
  readonly #allowed = new Set<string>();
  readonly #denied = new Set<string>();
  /** What holds for all addresses that are not named before. */
  #others: 'allow' | 'deny' | undefined;

  /** Takes a directive, where it is one of them; says whether it is. */
  take(name: string, value: string): boolean {
    if (name !== 'allow' && name !== 'deny') return false;
    if (this.#others === undefined && value === 'all') this.#others = name;
    else if (this.#others === undefined) {
      (name === 'allow' ? this.#allowed : this.#denied).add(value);
    }
    return true;
  }

  get isEmpty(): boolean {
    return this.#others === undefined && this.#allowed.size + this.#denied.size === 0;
  }

  /** Whether no address comes in that is not one of a private network or of the machine itself. */
  get isPrivate(): boolean {
    const reaches = Array.from(this.#allowed, reachOfRange);
    return (
      this.#others === 'deny' &&
      !reaches.some((reach) => reach !== 'loopback' && reach !== 'private')
    );
  }

  /** The exposure, where the rules let in addresses of one machine or of private networks alone. */
  get exposure(): EndpointRecord['exposure'] | undefined {
    if (!this.isPrivate || this.#allowed.size === 0) return undefined;
    return Array.from(this.#allowed, reachOfRange).includes('private') ? 'private' : 'local';
  }

  /**
   * The rules as sentences.
   * @param part The part of the server that they are for; undefined for all of it.
   */
  *sentences(part?: string): Generator<string> {
    const at = part === undefined ? '' : ` at ${part}`;
    if (this.#denied.size > 0) yield `Denied addresses${at}: ${listed(this.#denied, ', ')}.`;
    if (this.#others === 'deny' && this.#allowed.size === 0) yield `No address is allowed${at}.`;
    else if (this.#others === 'deny')
      yield `Allowed addresses${at}: ${listed(this.#allowed, ', ')}.`;
    else if (this.#others === 'allow' && part !== undefined)
      yield `All other addresses are allowed${at}.`;
  }
}

/** How far the addresses of a range reach; null where they do not reach equally far. */
function reachOfRange(range: string): Reach | null {
  if (range === 'unix:') return 'loopback';
  if (!ipaddr.isValidCIDR(range)) return reachOf(range);
  const [address, bits] = ipaddr.parseCIDR(range);
  const isIPv4 = address.kind() === 'ipv4';
  // The widest private range of IPv6 is fc00::/7.
  if (!isIPv4) return bits >= 7 ? reachOf(address.toString()) : null;
  const first = reachOf(ipaddr.IPv4.networkAddressFromCIDR(range).toString());
  const last = reachOf(ipaddr.IPv4.broadcastAddressFromCIDR(range).toString());
  return first === last ? first : null;
}
