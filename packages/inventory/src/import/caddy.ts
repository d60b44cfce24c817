import { reachOf } from '../lint/address.ts';
import { shorten } from '../shorten.ts';
import { type Line, readCaddyfile } from './caddy-tokens.ts';
import { checkNumber, type Found, type Import, LeftOut } from './draft.ts';
import { Site } from './site.ts';

/** A site of a Caddyfile, as far as it was read. */
type Reading = {
  head: Line;
  site: Site;
  /** The lines that opened the blocks of the site that are open. */
  blocks: Line[];
};

/** The sites of a Caddyfile, one record for each of their addresses. */
export function importCaddy(source: string): Import {
  const leftOut = new LeftOut();
  const found: Found[] = [];
  for (const { head, site } of sitesOf(readCaddyfile(source))) {
    const about = { auth: site.auth(), notes: site.notes() };
    for (const address of addressesOf(head)) {
      const read = readAddress(address);
      if (read === null) {
        leftOut.add(`line ${head.number}: ${shorten(address)} is known only where Caddy runs`);
        continue;
      }
      found.push({ ...toFound(read), ...about });
      checkNumber(found.length);
    }
  }
  return { found, leftOut };
}

/** A file of one site may do without braces: its first line is the address, the others are the site's. */
function* sitesOf(lines: Iterable<Line | null>): Generator<Reading> {
  let reading: Reading | undefined;
  // Whether the site is all of the file.
  let isAlone = false;
  let isFirst = true;
  // How many blocks are open that are of no site.
  let others = 0;
  for (const line of lines) {
    if (reading !== undefined) {
      if (line !== null) {
        readLine(reading, line);
      } else if (reading.blocks.pop() === undefined) {
        yield reading;
        reading = undefined;
      }
    } else if (line === null) others -= 1;
    else if (others > 0) others += line.opens ? 1 : 0;
    else if (line.words[0] !== 'import') {
      isAlone = isFirst && !line.opens;
      isFirst = false;
      if (isAlone || isSite(line)) reading = { head: line, site: new Site(), blocks: [] };
      else if (line.opens) others = 1;
    }
  }
  if (reading !== undefined && isAlone) yield reading;
}

/** Options of the server stand in a block without a name, snippets in one with a name in parentheses. */
function isSite({ words, opens }: Line): boolean {
  const [first = ''] = words;
  return opens && words.length > 0 && !(first.startsWith('(') && first.endsWith(')'));
}

function readLine({ site, blocks }: Reading, line: Line): void {
  const [name = '', ...values] = line.words;
  const isMatcher = /^[/@]/.test(values[0] ?? '');
  const targets = values.filter((value) => !/^[/@*]/.test(value));
  const part = isMatcher ? values[0] : partOf(blocks);
  if (name === 'reverse_proxy' || (name === 'to' && blocks.at(-1)?.words[0] === 'reverse_proxy')) {
    for (const upstream of targets) site.passesTo(upstream);
  } else if (name === 'basic_auth' || name === 'basicauth') {
    site.asksFor('HTTP basic authentication', part);
  } else if (name === 'forward_auth') site.asksFor(`Subrequest to ${targets[0] ?? ''}`, part);
  else if (name === 'client_auth') site.asksFor('Client certificates');
  if (line.opens) blocks.push(line);
}

/** The part of the site that the innermost block is for; a `route` without a matcher is for all of it. */
function partOf(blocks: readonly Line[]): string | undefined {
  const within = blocks.findLast(({ words }) => words.length > 1 || words[0] !== 'route');
  return within?.words[1] ?? within?.words[0];
}

function* addressesOf({ words }: Line): Generator<string> {
  for (const word of words) yield* word.split(',').filter(Boolean);
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

function toFound({ scheme, host, port, path }: Address): Found {
  const usual = scheme === 'https' ? 443 : 80;
  const plain = host?.replaceAll(/[[\]]/g, '');
  const reach = plain === undefined ? null : reachOf(plain);
  const isWild = host?.startsWith('*') ?? true;
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
  };
}
