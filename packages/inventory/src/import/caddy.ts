import { withoutBrackets } from '../host.ts';
import { reachOf } from '../lint/address.ts';
import { shorten } from '../shorten.ts';
import { isDirective } from './caddy-directives.ts';
import { isImport, isVariable, type Line, readCaddyfile } from './caddy-lines.ts';
import { checkNumber, type Found, type Import, ImportError, LeftOut } from './draft.ts';
import { type Place, placeOf } from './place.ts';
import { Site } from './site.ts';

/** A site of a Caddyfile, as far as it was read. */
type Reading = {
  head: Line;
  site: Site;
  /** Whether `tls` says how it is encrypted. */
  hasTls: boolean;
  /** Whether `bind` has it listen only where its own machine comes; undefined without one. */
  isLocal: boolean | undefined;
  /** The lines that opened the blocks of the site that are open. */
  blocks: Line[];
};

/** Where Caddy listens for the two schemes, unless an address says it. */
type Ports = { http: number; https: number };

const UNKNOWN = 'is known only where Caddy runs';

/** The sites of a Caddyfile, one record for each of their addresses. */
export function importCaddy(source: string): Import {
  const leftOut = new LeftOut();
  const found: Found[] = [];
  const ports: Ports = { http: 80, https: 443 };
  for (const { head, site, hasTls, isLocal } of sitesOf(readCaddyfile(source), ports, leftOut)) {
    const about = {
      auth: site.auth(),
      notes: site.notes(),
      ...(isLocal && { exposure: 'local' as const }),
    };
    for (const address of addressesOf(head)) {
      const read = readAddress(address, hasTls, ports);
      if (read === null) {
        const why = address.includes('{') ? UNKNOWN : 'is no address of a site';
        leftOut.add(() => `line ${head.number}: ${shorten(address)} ${why}`);
        continue;
      }
      const matched = read.path === '' ? '' : `Answers ${read.path} only.`;
      const notes = [matched, about.notes].filter(Boolean).join(' ');
      found.push({ ...toFound(read), ...about, notes });
      checkNumber(found.length);
    }
  }
  return { found, leftOut };
}

/** @param ports Are set to what the options of the server say, which stand before all sites. */
function* sitesOf(
  lines: Iterable<Line | null>,
  ports: Ports,
  leftOut: LeftOut,
): Generator<Reading> {
  let reading: Reading | undefined;
  // How many blocks are open from that of the options on.
  let optionBlocks = 0;
  for (const line of lines) {
    if (optionBlocks > 0) {
      if (line === null) optionBlocks -= 1;
      else {
        if (optionBlocks === 1) readOption(line, ports, leftOut);
        if (line.opens) optionBlocks += 1;
      }
    } else if (line === null) {
      if (reading === undefined || reading.blocks.pop() !== undefined) continue;
      yield reading;
      reading = undefined;
    } else if (isImport(line) && (line.isHead || reading !== undefined)) {
      leftOut.add(() => toldImport(line));
      if (line.opens) reading?.blocks.push(line);
    } else if (line.isHead && line.opens && line.words.length === 0) optionBlocks = 1;
    else if (line.isHead) {
      if (isSite(line, leftOut))
        reading = { head: line, site: new Site(), hasTls: false, isLocal: undefined, blocks: [] };
    } else if (reading !== undefined) readLine(reading, line, leftOut);
  }
  // A site without braces ends with the file.
  if (reading !== undefined) yield reading;
}

/** https://caddyserver.com/docs/caddyfile/options */
function readOption({ words, number }: Line, ports: Ports, leftOut: LeftOut): void {
  const [name = '', value = ''] = words;
  if (name === 'http_port' || name === 'https_port') {
    const port = /^\d{1,5}$/.test(value) ? Number(value) : 0;
    if (port >= 1 && port <= 65_535) ports[name === 'http_port' ? 'http' : 'https'] = port;
    else leftOut.add(() => `line ${number}: ${name} ${shorten(value)} is no port`);
  } else if (name === 'auto_https' && value === 'off') {
    leftOut.add(
      () =>
        `line ${number}: auto_https off: sites may be plain that are drafted as https; look at each`,
    );
  } else if (name === 'default_bind') {
    leftOut.add(() => `line ${number}: ${toldBind(words)}`);
  }
}

function toldBind(words: readonly string[]): string {
  return `${shorten(words.join(' '))}: where it has sites listen is not read; look at their exposure`;
}

function toldImport({ words, isHead, number }: Line): string {
  const imported = `line ${number}: import ${shorten(words[1] ?? '')}`;
  return isHead
    ? `${imported}: import those files too`
    : `${imported}: what it adds to the site is not read; look there for authentication and targets`;
}

/**
 * Options of the server stand in a block without a name, snippets in one with a name in parentheses, and routes that
 * sites invoke in one with `&` before them. A directive is no address, as in Caddy: it is of a site whose address is
 * not known.
 * @throws ImportError for a brace that is a part of an address, as in Caddy.
 */
function isSite(head: Line, leftOut: LeftOut): boolean {
  const { words, opens, number } = head;
  const [first = ''] = words;
  const braced = words.find((word) => word.endsWith('{'));
  if (braced !== undefined) {
    throw new ImportError(`line ${number}: put a space before the brace of ${shorten(braced)}`);
  }
  if (isVariable(head)) leftOut.add(() => `line ${number}: ${shorten(first)} ${UNKNOWN}`);
  else if (isDirective(first))
    leftOut.add(() => `line ${number}: ${shorten(first)} is in no site that is known`);
  else return words.length > 0 && !(opens && /^&?\(.*\)$/s.test(first));
  return false;
}

function readLine(reading: Reading, line: Line, leftOut: LeftOut): void {
  const { site, blocks } = reading;
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
  else if (name === 'tls' && blocks.length === 0) reading.hasTls = true;
  else if (name === 'bind' && blocks.length === 0) {
    const isLocal = values.every((address) => reachOf(withoutBrackets(address)) === 'loopback');
    reading.isLocal = reading.isLocal !== false && isLocal && values.length > 0;
    if (!reading.isLocal) leftOut.add(() => `line ${line.number}: ${toldBind(line.words)}`);
  }
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

type Address = {
  scheme: string;
  host: string | undefined;
  port: number;
  /** As it is written: where Caddy listens for a scheme is its own affair, and clients come to the usual port. */
  written: string | undefined;
  path: string;
};

/** A host may be international (RFC 5890 §2.3.2.3), and have `*` for a label. */
const ADDRESS =
  /^(?:(?<given>https?):\/\/)?(?<host>\[[\da-f:.]+\]|[\p{L}\p{M}\p{N}_.*-]*)(?::(?<written>\d{1,5}))?(?<path>\/.*)?$/iu;

/**
 * `[SCHEME://][HOST][:PORT][/PATH]`; HTTPS unless the scheme or port 80 says something else. The path is a matcher: it
 * says which requests the site answers.
 * https://caddyserver.com/docs/caddyfile/concepts#addresses
 */
function readAddress(address: string, hasTls: boolean, ports: Ports): Address | null {
  const match = ADDRESS.exec(address);
  if (match === null || address === '') return null;
  const { given, host = '', written, path = '' } = match.groups ?? {};
  // Without a host Caddy has nothing to get a certificate for: it is plain unless a directive or the port says else.
  const isBare = host === '' && !hasTls && Number(written) !== ports.https;
  const isPlain =
    given === 'http' || (given === undefined && (Number(written) === ports.http || isBare));
  const port = Number(written ?? (isPlain ? ports.http : ports.https));
  if (port < 1 || port > 65_535) return null;
  return { scheme: isPlain ? 'http' : 'https', host: host || undefined, port, written, path };
}

function toFound({ scheme, host, port, written, path }: Address): Found {
  const usual = scheme === 'https' ? '443' : '80';
  const named = host === undefined || host.includes('*') ? undefined : host;
  const place: Place = named === undefined ? {} : placeOf(named);
  return {
    key: [withoutBrackets(host ?? 'caddy'), port, path],
    name: host ?? `Caddy on port ${port}`,
    type: 'http',
    exposure: place.exposure,
    url:
      named &&
      `${scheme}://${named}${written === undefined || written === usual ? '' : `:${port}`}/`,
    protocol: scheme,
    host: place.host,
    port,
    domain: place.domain,
    service: 'caddy',
  };
}
