import { isIP } from 'node:net';
import { withoutBrackets } from '../../host.ts';
import { MAX_HOST_CHARACTERS } from '../../limits.ts';
import { quoted } from '../../shorten.ts';
import { type Fields, type Found, simpleRule } from '../rule.ts';

/** Labels of letters, digits, hyphens and underscores (RFC 1123 §2.1, RFC 5890 §2.3.2.3); `*` may stand for one. */
const NAME = /^(?:\*|[\p{L}\p{M}\p{N}_-]+)(?:\.(?:\*|[\p{L}\p{M}\p{N}_-]+))*\.?$/u;

/** Finds hosts and domains that say more than a host, such as a port, or that are none. */
export const hostName = simpleRule('lint/host-name', 'error', (fields) => {
  const found = problemOf('host', fields);
  const more = problemOf('domain', fields);
  return found === NONE ? more : [...found, ...more];
});

const NONE: readonly Found[] = [];

function problemOf(key: 'host' | 'domain', fields: Fields): readonly Found[] {
  const written = fields[key];
  if (written === undefined || isHost(written.trim())) return NONE;
  return [{ key, message: `${key} is ${quoted(written)}; ${adviceOn(written)}` }];
}

/** A blank one is another rule's concern. */
function isHost(host: string): boolean {
  if (host === '') return true;
  return (
    host.length <= MAX_HOST_CHARACTERS && (NAME.test(host) || isIP(withoutBrackets(host)) !== 0)
  );
}

function adviceOn(written: string): string {
  if (written.includes('://')) return 'write the name or address alone, and the whole in url';
  return /^[^:\s]+:\d+$|\]:\d+$/.test(written)
    ? 'write the port in port'
    : 'write one name or IP address, as in gateway.example.org';
}
