import { isValidPort, toHostProperties, getNetworkScope, removeBrackets } from '../address.ts';
import { MAX_IMPORT_DEPTH } from '../limits.ts';
import { shorten } from '../text.ts';
import { type EndpointFacts, ImportResult, ImportError, SiteNotes } from './draft.ts';
import {
  countNewlines,
  UNMATCHED_BRACE_MESSAGE,
  findQuoteEnd,
  TOO_DEEP_MESSAGE,
  UNCLOSED_BLOCK_MESSAGE,
} from './source.ts';

/** A site of a Caddyfile. */
type Site = {
  head: Line;
  notes: SiteNotes;
  /** Whether the site has a `tls` directive. */
  hasTls: boolean;
  /** Whether `bind` restricts the site to its own machine. Undefined without `bind`. */
  isLocal: boolean | undefined;
  /** Opening lines of the currently open blocks. */
  blocks: Line[];
};

const UNKNOWN = 'is known only where Caddy runs';

/** Imports the sites of a Caddyfile, with one draft per address. */
export function importCaddy(source: string): ImportResult {
  const result = new ImportResult();
  for (const { head, notes, hasTls, isLocal } of sitesOf(readLines(source), result)) {
    for (const address of head.words.flatMap((word) => word.split(',').filter(Boolean))) {
      const found = parseSiteAddress(address, hasTls);
      if (found === null) {
        const reason = address.includes('{') ? UNKNOWN : 'is not the address of a site';
        result.skip(() => `line ${head.number}: ${shorten(address)} ${reason}`);
        continue;
      }
      const text = [found.notes, notes.describeRest()].filter(Boolean).join(' ');
      const exposure = isLocal ? ('local' as const) : found.exposure;
      result.add({ ...found, exposure, auth: notes.describeAuth(), notes: text });
    }
  }
  return result;
}

function* sitesOf(lines: Iterable<Line | null>, result: ImportResult): Generator<Site> {
  let site: Site | undefined;
  for (const line of lines) {
    if (line === null) {
      if (site === undefined || site.blocks.pop() !== undefined) continue;
      yield site;
      site = undefined;
    } else if (line.words[0] === 'import' && (line.isHead || site !== undefined)) {
      const advice =
        site === undefined
          ? 'import those files too'
          : 'its additions to the site are unknown; check it for authentication and targets';
      result.skip(() => `line ${line.number}: import ${shorten(line.words[1] ?? '')}: ${advice}`);
      if (line.opens) site?.blocks.push(line);
    } else if (line.isHead) {
      if (isSite(line, result)) {
        site = {
          head: line,
          notes: new SiteNotes(),
          hasTls: false,
          isLocal: undefined,
          blocks: [],
        };
      }
    } else if (site !== undefined) readLine(site, line);
  }
  // A site without braces ends with the file.
  if (site !== undefined) yield site;
}

/** Tells whether a line opens a site and not global options, a snippet `(name)` or a named route `&(name)`. */
function isSite(head: Line, result: ImportResult): boolean {
  const { words, opens, number } = head;
  const [first = ''] = words;
  const braced = words.find((word) => word.endsWith('{'));
  if (braced !== undefined) {
    throw new ImportError(`line ${number}: put a space before the brace of ${shorten(braced)}`);
  }
  if (opens) return words.length > 0 && !/^&?\(.*\)$/s.test(first);
  // A Caddyfile fragment may begin with a directive such as `respond`.
  if (/[.:*]|^localhost$/.test(first) && !isVariable(head)) return true;
  const reason = isVariable(head) ? UNKNOWN : 'belongs to no known site';
  result.skip(() => `line ${number}: ${shorten(first)} ${reason}`);
  return false;
}

function readLine(site: Site, line: Line): void {
  const { notes, blocks } = site;
  const [name = '', ...values] = line.words;
  const isMatcher = /^[/@]/.test(values[0] ?? '');
  const targets = values.filter((value) => !/^[/@*]/.test(value));
  // A `route` without a matcher applies to the whole site.
  const block = blocks.findLast(({ words }) => words.length > 1 || words[0] !== 'route');
  const part = isMatcher ? values[0] : (block?.words[1] ?? block?.words[0]);
  if (name === 'reverse_proxy' || (name === 'to' && blocks.at(-1)?.words[0] === 'reverse_proxy')) {
    for (const upstream of targets) notes.addUpstream(upstream);
  } else if (name === 'basic_auth' || name === 'basicauth') {
    notes.addRequirement('HTTP basic authentication', part);
  } else if (name === 'forward_auth')
    notes.addRequirement(`Subrequest to ${targets[0] ?? ''}`, part);
  else if (name === 'client_auth') notes.addRequirement('Client certificates');
  else if (name === 'tls' && blocks.length === 0) site.hasTls = true;
  else if (name === 'bind' && blocks.length === 0) {
    const isLocal = values.every(
      (address) => getNetworkScope(removeBrackets(address)) === 'loopback',
    );
    site.isLocal = site.isLocal !== false && isLocal && values.length > 0;
  }
  if (line.opens) blocks.push(line);
}

/** Hosts may be international (RFC 5890 §2.3.2.3) and contain `*` as a label. */
const ADDRESS =
  /^(?:(?<scheme>https?):\/\/)?(?<host>\[[\da-f:.]+\]|[\p{L}\p{M}\p{N}_.*-]*)(?::(?<port>\d{1,5}))?(?<path>\/.*)?$/iu;

/**
 * Parses `[SCHEME://][HOST][:PORT][/PATH]`. HTTPS is the default, except for port 80 and for addresses without a host.
 * Returns null if the address is invalid.
 * https://caddyserver.com/docs/caddyfile/concepts#addresses
 */
function parseSiteAddress(address: string, hasTls: boolean): EndpointFacts | null {
  const groups = address === '' ? undefined : ADDRESS.exec(address)?.groups;
  if (groups === undefined) return null;
  const { scheme: given, host = '', port: written, path = '' } = groups;
  const isBare = host === '' && !hasTls && written !== '443';
  const isPlain = given === 'http' || (given === undefined && (written === '80' || isBare));
  const [scheme, usual] = isPlain ? ['http', 80] : ['https', 443];
  const port = Number(written ?? usual);
  if (!isValidPort(port)) return null;
  const named = host === '' || host.includes('*') ? undefined : host;
  const suffix = port === usual ? '' : `:${port}`;
  return {
    key: [removeBrackets(host || 'caddy'), port, path],
    name: host || `Caddy on port ${port}`,
    type: 'http',
    ...(named !== undefined && {
      url: `${scheme}://${named}${suffix}/`,
      ...toHostProperties(named),
    }),
    protocol: scheme,
    port,
    service: 'caddy',
    notes: path === '' ? '' : `Answers ${path} only.`,
  };
}

/** The words of a logical line. */
type Line = {
  words: string[];
  /** Whether the line opens a block. */
  opens: boolean;
  /** Whether the line is at the top level: the addresses of a site, a snippet, an import or a variable. */
  isHead: boolean;
  number: number;
};

/** Tells whether a line consists only of environment variables, which may be empty. */
function isVariable({ words }: Line): boolean {
  return words.every((word) => /^\{\$[^}]*\}$/.test(word));
}

/**
 * Yields the lines of a Caddyfile, and null at the end of each block. A trailing comma continues a list of addresses
 * on the next line. A site without braces is the only site and extends to the end of the file.
 * https://caddyserver.com/docs/caddyfile/concepts#structure
 * @throws ImportError for unclosed blocks and quotes, and for blocks that are nested too deep.
 */
function* readLines(source: string): Generator<Line | null> {
  const open: number[] = [];
  let words: Token[] = [];
  let hasOnlySite = false;
  const finish = (opens: boolean, number: number): Line => {
    const isHead = open.length === 0 && !hasOnlySite;
    const line = { words: words.map(({ text }) => text), opens, isHead, number };
    hasOnlySite ||= isHead && !opens && line.words[0] !== 'import' && !isVariable(line);
    words = [];
    return line;
  };
  for (const token of readTokens(source)) {
    const [first = token] = words;
    const brace = token.isQuoted ? '' : token.text;
    if (brace === '{') {
      yield finish(true, first.line);
      open.push(token.line);
      if (open.length > MAX_IMPORT_DEPTH) throw new ImportError(TOO_DEEP_MESSAGE);
      continue;
    }
    const last = words.at(-1);
    const isAddress = open.length === 0 && !hasOnlySite;
    const continues = isAddress && last?.isQuoted === false && last.text.endsWith(',');
    if (words.length > 0 && (brace === '}' || (token.startsLine && !continues))) {
      yield finish(false, first.line);
    }
    if (brace !== '}') words.push(token);
    else if (open.pop() !== undefined) yield null;
    else throw new ImportError(`line ${token.line}: ${UNMATCHED_BRACE_MESSAGE}`);
  }
  if (words[0] !== undefined) yield finish(false, words[0].line);
  const unclosed = open.at(-1);
  if (unclosed !== undefined) throw new ImportError(`line ${unclosed}: ${UNCLOSED_BLOCK_MESSAGE}`);
}

/** A word, a quoted text or a heredoc. `isQuoted` is true for quoted text and heredocs. */
type Token = { text: string; line: number; isQuoted: boolean; startsLine: boolean };

/** Matches a continued line, a comment, space, the start of a heredoc, or a word. */
const PIECE = /\\\r?\n|#[^\n]*|[^\S\n]+|<<([\w-]+)\r?\n|[^\s"`](?:\\(?!\r?\n)|[^\s\\])*/y;

/**
 * Yields the tokens of a Caddyfile as Caddy's lexer finds them.
 * https://caddyserver.com/docs/caddyfile/concepts#tokens-and-quotes
 */
function* readTokens(written: string): Generator<Token> {
  // Environment variables are replaced by their defaults, which may contain several tokens.
  const source = written.replaceAll(/\{\$[^:}]*:([^}]*)\}/g, '$1');
  let [index, line, startsLine] = [0, 1, true];
  while (index < source.length) {
    const unit = source[index] ?? '';
    let end = index + 1;
    let text: string | undefined;
    const isQuote = unit === '"' || unit === '`';
    let isQuoted = isQuote;
    if (isQuote) {
      const close = unit === '"' ? findQuoteEnd(source, end, unit) : source.indexOf(unit, end);
      if (close === -1) throw createUnclosedError(line, 'quote', 'close it');
      text = source.slice(end, close);
      if (unit === '"') text = text.replaceAll(/\\(["\\])/g, '$1');
      end = close + 1;
    } else if (unit !== '\n') {
      PIECE.lastIndex = index;
      const [piece = unit, marker] = PIECE.exec(source) ?? [];
      end = index + piece.length;
      if (marker !== undefined) {
        const close = source.indexOf(marker, end);
        if (close === -1)
          throw createUnclosedError(line, 'heredoc', `end it with ${shorten(marker)}`);
        text = source.slice(end, close);
        isQuoted = true;
        end = close + marker.length;
      } else if (!/^(?:[\s#]|\\\r?\n)/.test(piece)) text = piece;
    }
    if (text !== undefined) {
      yield { text, line, isQuoted, startsLine };
      startsLine = false;
    } else if (unit === '\n') startsLine = true;
    line += countNewlines(source, index, end);
    index = end;
  }
}

function createUnclosedError(line: number, kind: string, advice: string): ImportError {
  return new ImportError(`line ${line}: the ${kind} that begins here is not closed; ${advice}`);
}
