import { reachOf } from '../lint/address.ts';
import { type Line, readCaddyfile } from './caddy-tokens.ts';
import { shorten } from '../shorten.ts';
import type { Found, Import } from './draft.ts';

/** The sites of a Caddyfile, one record for each of their addresses. */
export function importCaddy(source: string): Import {
  const leftOut: string[] = [];
  const found: Found[] = [];
  for (const site of sitesOf(readCaddyfile(source))) {
    for (const address of site.words.flatMap((word) => word.split(',')).filter(Boolean)) {
      const read = readAddress(address);
      if (read === null)
        leftOut.push(`line ${site.number}: ${shorten(address)} is known only where Caddy runs`);
      else found.push(toFound(read, site.block ?? []));
    }
  }
  return { found, leftOut };
}

/** A file of one site may do without braces: its first line is the address, the others are the site's. */
function sitesOf(lines: readonly Line[]): Line[] {
  const [first, ...rest] = lines.filter(({ words }) => words[0] !== 'import');
  if (first === undefined) return [];
  if (first.block === null) return [{ ...first, block: rest }];
  // Options of the server stand in a block without a name, snippets in one with a name in parentheses.
  return lines.filter(
    ({ words, block }) => block !== null && words.length > 0 && !/^\(.*\)$/.test(words[0] ?? ''),
  );
}

type Address = { scheme: string; host: string | undefined; port: number; path: string };

/** `[SCHEME://][HOST][:PORT][/PATH]`; HTTPS unless the scheme or port 80 says something else. */
function readAddress(address: string): Address | null {
  const match = /^(?:(https?):\/\/)?(\[[\da-f:]+\]|\*?[\w.-]*)(?::(\d{1,5}))?(\/.*)?$/i.exec(
    address,
  );
  if (match === null || address === '') return null;
  const [, given, host = '', written, path = ''] = match;
  // An address without a host and a scheme is served as it is, without certificates.
  const isPlain = given === 'http' || (given === undefined && (written === '80' || host === ''));
  const scheme = isPlain ? 'http' : 'https';
  const port = written === undefined ? (isPlain ? 80 : 443) : Number(written);
  return { scheme, host: host === '' ? undefined : host, port, path };
}

function toFound({ scheme, host, port, path }: Address, block: readonly Line[]): Found {
  const usual = scheme === 'https' ? 443 : 80;
  const plain = host?.replaceAll(/[[\]]/g, '');
  const reach = plain === undefined ? null : reachOf(plain);
  const isWild = host?.startsWith('*') ?? true;
  const directives = all(block);
  const passes = directives.filter(({ words }) => words[0] === 'reverse_proxy');
  const to = new Set(
    passes.flatMap(({ words }) => words.slice(1)).filter((word) => !/^[/@*]/.test(word)),
  );
  return {
    key: [plain ?? 'caddy', port, path],
    name: host ?? `Caddy on port ${port}`,
    type: 'http',
    ...(reach === 'loopback' && { exposure: 'local' }),
    url: isWild
      ? undefined
      : `${scheme}://${host}${port === usual ? '' : `:${port}`}${path || '/'}`,
    protocol: scheme,
    port,
    domain: isWild ? undefined : plain,
    service: 'caddy',
    auth: directives.some(({ words }) => /^basic_?auth$/.test(words[0] ?? ''))
      ? 'HTTP basic authentication'
      : undefined,
    notes: Array.from(to, (upstream) => `Passes to ${upstream}.`).join(' '),
  };
}

function all(lines: readonly Line[]): Line[] {
  return lines.flatMap((line) => [line, ...all(line.block ?? [])]);
}
