import { getNetworkScope, isValidPort, removeBrackets, toHostProperties } from '../address.ts';
import { MAX_IMPORT_DEPTH } from '../limits.ts';
import { shorten } from '../text.ts';
import { type EndpointFacts, ImportError, ImportResult, SiteNotes } from './draft.ts';
import {
  countNewlines,
  findQuoteEnd,
  readBlock,
  TOO_DEEP_MESSAGE,
  UNCLOSED_BLOCK_MESSAGE,
  UNMATCHED_BRACE_MESSAGE,
} from './source.ts';

/** Logical line. `isHead` is true at the top level, for the addresses of a site, snippets, imports and variables. */
type Line = { words: string[]; opens: boolean; isHead: boolean; number: number };
type Lines = Iterator<Line | null>;

type Site = {
  notes: SiteNotes;
  /** Whether the site has a `tls` directive. */
  hasTls: boolean;
  /** Whether `bind` restricts the site to its own machine. Undefined without `bind`. */
  isLocal: boolean | undefined;
};

const UNKNOWN = 'is known only where Caddy runs';

/** Imports the sites of a Caddyfile, with one draft per address. */
export function importCaddy(source: string): ImportResult {
  const result = new ImportResult();
  const lines = readLines(source);
  for (const head of readBlock(lines)) {
    const isImport = head.words[0] === 'import';
    if (head.isHead && isImport) skipImport(head, 'import those files too', result);
    if (!head.isHead || isImport || !isSite(head, result)) {
      if (head.opens) ignoreBlock(lines);
      continue;
    }
    const site: Site = { notes: new SiteNotes(), hasTls: false, isLocal: undefined };
    // A site without braces ends with the file.
    readSite(lines, site, result);
    addSite(head, site, result);
  }
  return result;
}

function addSite({ words, number }: Line, site: Site, result: ImportResult): void {
  const { notes, hasTls, isLocal } = site;
  for (const address of words.flatMap((word) => word.split(',').filter(Boolean))) {
    const facts = parseSiteAddress(address, hasTls);
    if (facts === null) {
      const reason = address.includes('{') ? UNKNOWN : 'is not the address of a site';
      result.skip(() => `line ${number}: ${shorten(address)} ${reason}`);
      continue;
    }
    const text = [facts.notes, notes.describeRest()].filter(Boolean).join(' ');
    const exposure = isLocal ? ('local' as const) : facts.exposure;
    result.add({ ...facts, exposure, auth: notes.describeAuth(), notes: text });
  }
}

function skipImport({ words, number }: Line, advice: string, result: ImportResult): void {
  result.skip(() => `line ${number}: import ${shorten(words[1] ?? '')}: ${advice}`);
}

function ignoreBlock(lines: Lines): void {
  for (const line of readBlock(lines)) if (line.opens) ignoreBlock(lines);
}

/** Returns whether a line opens a site block. Others are global options, snippets `(name)` and named routes `&(name)`. */
function isSite(head: Line, result: ImportResult): boolean {
  const { words, opens, number } = head;
  const [first = ''] = words;
  const braced = words.find((word) => word.endsWith('{'));
  if (braced !== undefined) {
    throw new ImportError(`line ${number}: put a space before the brace of ${shorten(braced)}`);
  }
  if (opens) return words.length > 0 && !/^&?\(.*\)$/s.test(first);
  // A Caddyfile fragment may begin with a directive such as `respond`.
  if (/[.:*]|^localhost$/.test(first) && !isVariable(words)) return true;
  const reason = isVariable(words) ? UNKNOWN : 'belongs to no known site';
  result.skip(() => `line ${number}: ${shorten(first)} ${reason}`);
  return false;
}

/** @param outer Nested block: its first word, and the part of the site to which it applies. */
function readSite(
  lines: Lines,
  site: Site,
  result: ImportResult,
  outer?: { name: string; part: string | undefined },
): void {
  const { notes } = site;
  for (const line of readBlock(lines)) {
    const [name = '', ...values] = line.words;
    const targets = values.filter((value) => !/^[/@*]/.test(value));
    const part = /^[/@]/.test(values[0] ?? '') ? values[0] : outer?.part;
    if (name === 'import') {
      const advice =
        'its additions to the site are unknown; check it for authentication and targets';
      skipImport(line, advice, result);
    } else if (name === 'reverse_proxy' || (name === 'to' && outer?.name === 'reverse_proxy')) {
      for (const upstream of targets) notes.addUpstream(upstream);
    } else if (name === 'basic_auth' || name === 'basicauth') {
      notes.addRequirement('HTTP basic authentication', part);
    } else if (name === 'forward_auth') {
      notes.addRequirement(`Subrequest to ${targets[0] ?? ''}`, part);
    } else if (name === 'client_auth') notes.addRequirement('Client certificates');
    else if (name === 'tls' && outer === undefined) site.hasTls = true;
    else if (name === 'bind' && outer === undefined) {
      const isLocal = values.length > 0 && values.every(isLoopback);
      site.isLocal = site.isLocal !== false && isLocal;
    }
    if (!line.opens) continue;
    // A `route` without a matcher applies to the whole site.
    const isPlainRoute = name === 'route' && values.length === 0;
    const inner = isPlainRoute ? outer?.part : (values[0] ?? name);
    readSite(lines, site, result, { name, part: inner });
  }
}

function isLoopback(host: string): boolean {
  return getNetworkScope(removeBrackets(host)) === 'loopback';
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
  const hostName = host === '' || host.includes('*') ? undefined : host;
  const url = `${scheme}://${hostName}${port === usual ? '' : `:${port}`}/`;
  return {
    key: [removeBrackets(host || 'caddy'), port, path],
    name: host || `Caddy on port ${port}`,
    type: 'http',
    ...(hostName !== undefined && { url, ...toHostProperties(hostName) }),
    protocol: scheme,
    port,
    service: 'caddy',
    notes: path === '' ? '' : `Answers ${path} only.`,
  };
}

/** Tells whether a line consists only of environment variables, which may be empty. */
function isVariable(words: readonly string[]): boolean {
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
  let tokens: Token[] = [];
  let hasOnlySite = false;
  const finishLine = (opens: boolean, number: number): Line => {
    const isHead = open.length === 0 && !hasOnlySite;
    const words = tokens.map(({ text }) => text);
    hasOnlySite ||= isHead && !opens && words[0] !== 'import' && !isVariable(words);
    tokens = [];
    return { words, opens, isHead, number };
  };
  for (const token of readTokens(source)) {
    const [first = token] = tokens;
    const brace = token.isQuoted ? '' : token.text;
    if (brace === '{') {
      yield finishLine(true, first.line);
      open.push(token.line);
      if (open.length > MAX_IMPORT_DEPTH) throw new ImportError(TOO_DEEP_MESSAGE);
      continue;
    }
    const last = tokens.at(-1);
    const isAddress = open.length === 0 && !hasOnlySite;
    const continues = isAddress && last?.isQuoted === false && last.text.endsWith(',');
    if (tokens.length > 0 && (brace === '}' || (token.startsLine && !continues))) {
      yield finishLine(false, first.line);
    }
    if (brace !== '}') tokens.push(token);
    else if (open.pop() !== undefined) yield null;
    else throw new ImportError(`line ${token.line}: ${UNMATCHED_BRACE_MESSAGE}`);
  }
  if (tokens[0] !== undefined) yield finishLine(false, tokens[0].line);
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
    let isQuoted = unit === '"' || unit === '`';
    if (isQuoted) {
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
        const advice = `end it with ${shorten(marker)}`;
        if (close === -1) throw createUnclosedError(line, 'heredoc', advice);
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
