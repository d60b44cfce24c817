import { NginxParser, type NginxParseTreeNode } from 'nginx-conf/dist/src/parser.js';
import { reachOf } from '../lint/address.ts';
import { shorten } from '../shorten.ts';
import { type Found, type Import, ImportError } from './draft.ts';

/** What nginx serves: the `server` blocks of `http`, each of its addresses with its first name. */
export function importNginx(source: string): Import {
  const leftOut: string[] = [];
  const found = walk(parse(source)).flatMap(({ node, isStream }) => {
    if (node.name === 'include')
      leftOut.push(`include ${shorten(node.value)}: import that file too`);
    return node.name === 'server' && node.children !== null
      ? readServer(node, isStream, leftOut)
      : [];
  });
  return { found, leftOut };
}

function parse(source: string): NginxParseTreeNode {
  checkBlocks(source);
  let result: NginxParseTreeNode | undefined;
  new NginxParser().parse(source, (error, tree) => {
    if (error !== null) throw new ImportError(error.message.replaceAll('\n', ' '));
    result = tree;
  });
  if (result === undefined) throw new ImportError('it could not be read');
  return result;
}

/** The parser takes blocks that are not closed. Braces in comments and quotes are none. */
function checkBlocks(source: string): void {
  const open: number[] = [];
  let line = 1;
  for (const [token] of source.matchAll(
    /#[^\n]*|"(?:\\[^]|[^"\\])*"|'(?:\\[^]|[^'\\])*'|\\[^]|\$\{\w+\}|[{}\n]/g,
  )) {
    if (token === '{') open.push(line);
    else if (token === '}' && open.pop() === undefined) {
      throw new ImportError(`line ${line}: there is nothing to close`);
    }
    line += token.split('\n').length - 1;
  }
  const unclosed = open.at(-1);
  if (unclosed !== undefined) {
    throw new ImportError(`line ${unclosed}: the block that begins here is not closed`);
  }
}

/** All directives outside of servers. */
function walk(
  node: NginxParseTreeNode,
  isStream = false,
): { node: NginxParseTreeNode; isStream: boolean }[] {
  return (node.children ?? []).flatMap((child) =>
    child.name === 'server' || child.name === 'upstream'
      ? [{ node: child, isStream }]
      : [{ node: child, isStream }, ...walk(child, isStream || child.name === 'stream')],
  );
}

function readServer(server: NginxParseTreeNode, isStream: boolean, leftOut: string[]): Found[] {
  // A server that does not say where listens on port 80.
  const written = valuesOf(server, 'listen');
  const listens = written.length === 0 ? ['80'] : written;
  const names = valuesOf(server, 'server_name').flatMap((value) => value.split(/\s+/));
  // _ and "" are names that nobody asks for, and patterns are no names.
  const named = names.filter((name) => /^[\w.-]+$/.test(name) && name !== '_');
  return listens.flatMap((listen) => {
    const [address = '', ...flags] = listen.split(/\s+/);
    const place = readAddress(address);
    if (place === null) {
      leftOut.push(`listen ${shorten(listen)}: it is no port`);
      return [];
    }
    return [toFound(server, { ...place, flags, named, isStream })];
  });
}

type Listen = {
  host: string | undefined;
  port: number;
  flags: string[];
  named: string[];
  isStream: boolean;
};

function toFound(
  server: NginxParseTreeNode,
  { host, port, flags, named, isStream }: Listen,
): Found {
  const [domain] = named;
  const isSecure = flags.includes('ssl') || flags.includes('quic');
  const scheme = isSecure ? 'https' : 'http';
  const usual = isSecure ? 443 : 80;
  const passes = descendants(server).filter(({ name }) => name.endsWith('_pass'));
  const others = named.length < 2 ? [] : [`Also ${named.slice(1).join(', ')}.`];
  const protocol = isStream ? (flags.includes('udp') ? 'udp' : 'tcp') : scheme;
  const name = domain ?? `nginx on port ${port}`;
  return {
    key: [domain ?? host ?? 'nginx', port, ...(protocol === 'udp' ? ['udp'] : [])],
    name,
    type: isStream ? protocol : 'http',
    ...(host !== undefined && reachOf(host) === 'loopback' && { exposure: 'local' }),
    url:
      domain === undefined || isStream
        ? undefined
        : `${scheme}://${domain}${port === usual ? '' : `:${port}`}/`,
    protocol,
    host,
    port,
    domain,
    service: 'nginx',
    auth: authOf(server),
    notes: [...others, ...new Set(passes.map(({ value }) => `Passes to ${value}.`))].join(' '),
  };
}

function authOf(server: NginxParseTreeNode): string | undefined {
  const ways = descendants(server).flatMap(({ name, value }) => {
    if (name === 'auth_basic' && value !== 'off') return ['HTTP basic authentication'];
    if (name === 'ssl_verify_client' && value === 'on') return ['Client certificates'];
    if (name === 'auth_request' && value !== 'off') return [`Subrequest to ${value}`];
    return [];
  });
  // A location may have another rule than its server: somebody has to look.
  return ways.length === 0 ? undefined : [...new Set(ways)].join('; ');
}

function readAddress(address: string): { host: string | undefined; port: number } | null {
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

function descendants(node: NginxParseTreeNode): NginxParseTreeNode[] {
  return (node.children ?? []).flatMap((child) => [child, ...descendants(child)]);
}

function valuesOf(node: NginxParseTreeNode, name: string): string[] {
  return (node.children ?? []).filter((child) => child.name === name).map(({ value }) => value);
}
