import { reachOf } from '../lint/address.ts';
import { MAX_HOST_CHARACTERS } from '../limits.ts';
import { shorten } from '../shorten.ts';
import { checkNumber, type Found, type Import, LeftOut } from './draft.ts';
import { type Directive, readDirectives } from './nginx-directives.ts';
import { listed, Site } from './site.ts';

/** A block that is open. */
type Block = { name: string; place: string };

/** A `server` block, as far as it was read. */
type Server = {
  site: Site;
  /** How many blocks are open around its directives, itself included. */
  depth: number;
  /** Whether it is one of `stream` or `mail`, which serve no HTTP. */
  isPlain: boolean;
  listens: (readonly string[])[];
  names: Set<string>;
};

/** What nginx serves: the `server` blocks, each of its addresses with its first name. */
export function importNginx(source: string): Import {
  const leftOut = new LeftOut();
  const found: Found[] = [];
  const blocks: Block[] = [];
  let server: Server | undefined;
  for (const directive of readDirectives(source)) {
    if (directive === null) {
      if (server?.depth === blocks.length) {
        addServer(server, found, leftOut);
        server = undefined;
      }
      blocks.pop();
      continue;
    }
    const { name, values, opens } = directive;
    if (server !== undefined) readDirective(server, directive, blocks);
    else if (name === 'include') {
      leftOut.add(`include ${shorten(values[0] ?? '')}: import that file too`);
    }
    if (!opens) continue;
    blocks.push({ name, place: values.join(' ') });
    if (name === 'server') server ??= emptyServer(blocks);
  }
  return { found, leftOut };
}

function emptyServer(blocks: readonly Block[]): Server {
  const isPlain = blocks.some(({ name }) => name === 'stream' || name === 'mail');
  const depth = blocks.length;
  return { site: new Site(), depth, isPlain, listens: [], names: new Set() };
}

function readDirective(server: Server, { name, values }: Directive, blocks: readonly Block[]) {
  const { site, depth } = server;
  const [value = ''] = values;
  // Undefined for the server itself.
  const part = blocks.length === depth ? undefined : blocks.at(-1)?.place;
  if (name.endsWith('_pass')) site.passesTo(value);
  else if (name === 'auth_basic' || name === 'auth_request') {
    if (value !== 'off') {
      const way = name === 'auth_basic' ? 'HTTP basic authentication' : `Subrequest to ${value}`;
      site.asksFor(way, part);
    } else if (part !== undefined) site.leavesOpen(part);
  } else if (name === 'ssl_verify_client' && value === 'on') site.asksFor('Client certificates');
  else if (part === undefined && name === 'listen') server.listens.push(values);
  else if (part === undefined && name === 'server_name') {
    for (const one of values) addName(server.names, one);
  }
}

/** `_` and "" are names that nobody asks for, and patterns are no names. */
function addName(names: Set<string>, written: string): void {
  if (written.length > MAX_HOST_CHARACTERS || !/^[\w.-]+$/.test(written) || written === '_') return;
  // A dot before a name stands for the name, and for all below it.
  if (written.startsWith('.')) names.add(written.slice(1)).add(`*${written}`);
  else names.add(written);
}

function addServer({ site, isPlain, listens, names }: Server, found: Found[], leftOut: LeftOut) {
  const [domain] = names;
  names.delete(domain ?? '');
  const also = names.size === 0 ? '' : `Also ${listed(names, ', ')}.`;
  const notes = [also, site.notes()].filter(Boolean).join(' ');
  const auth = site.auth();
  const seen = new Set<string>();
  // A server that does not say where listens on port 80.
  for (const [address = '', ...flags] of listens.length === 0 ? [['80']] : listens) {
    const place = readAddress(address);
    if (place === null) {
      leftOut.add(`listen ${shorten([address, ...flags].join(' '))}: it is no port`);
      continue;
    }
    const one = toFound(place, { flags, domain, isPlain });
    // Of IPv4 and IPv6, one draft.
    const shown = [one.host, one.port, one.protocol].join();
    if (seen.has(shown)) continue;
    seen.add(shown);
    found.push({ ...one, auth, notes });
    checkNumber(found.length);
  }
}

type Address = { host: string | undefined; port: number };
type Listen = { flags: readonly string[]; domain: string | undefined; isPlain: boolean };

function toFound({ host, port }: Address, { flags, domain, isPlain }: Listen): Found {
  const isSecure = flags.includes('ssl') || flags.includes('quic');
  const scheme = isSecure ? 'https' : 'http';
  const usual = isSecure ? 443 : 80;
  const protocol = isPlain ? (flags.includes('udp') ? 'udp' : 'tcp') : scheme;
  return {
    key: [domain ?? host ?? 'nginx', port, ...(protocol === 'udp' ? ['udp'] : [])],
    name: domain ?? `nginx on port ${port}`,
    type: isPlain ? protocol : 'http',
    ...(host !== undefined && reachOf(host) === 'loopback' && { exposure: 'local' }),
    url:
      domain === undefined || isPlain
        ? undefined
        : `${scheme}://${domain}${port === usual ? '' : `:${port}`}/`,
    protocol,
    host,
    port,
    domain,
    service: 'nginx',
  };
}

function readAddress(address: string): Address | null {
  if (address.length > MAX_HOST_CHARACTERS) return null;
  const [, host, port] = /^(?:(\[[\da-f:]+\]|\*|[\w.-]+):)?(\d{1,5})$/i.exec(address) ?? [];
  if (port !== undefined) {
    const plain = host?.replaceAll(/[[\]]/g, '');
    const isWildcard = plain === undefined || ['*', '0.0.0.0', '::'].includes(plain);
    return { host: isWildcard ? undefined : plain, port: Number(port) };
  }
  // An address alone means port 80.
  const isHost = /^(\[[\da-f:]+\]|[\w-]+(\.[\w-]+)*)$/i.test(address);
  return isHost ? { host: address.replaceAll(/[[\]]/g, ''), port: 80 } : null;
}
