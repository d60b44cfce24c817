import { getNetworkScope, isValidPort, removeBrackets, toHostProperties } from '../address.ts';
import { MAX_IMPORT_DEPTH } from '../limits.ts';
import { shorten } from '../text.ts';
import { type ImportedEndpoint, ImportError, ImportResult, SiteNotes } from './draft.ts';
import {
  countNewlines,
  findQuoteEnd,
  readBlock,
  TOO_DEEP_MESSAGE,
  UNCLOSED_BLOCK_MESSAGE,
  UNMATCHED_BRACE_MESSAGE,
} from './source.ts';

/** Logical line. `isHead` is true at the top level: for site addresses, snippets, imports and variables. */
type Line = { words: string[]; hasBlock: boolean; isHead: boolean; number: number };
type Lines = Iterator<Line | null>;

type Site = {
  notes: SiteNotes;
  /** Whether the site has a `tls` directive. */
  hasTls: boolean;
  /** Whether `bind` restricts the site to its own machine. Undefined without `bind`. */
  isLocal: boolean | undefined;
};

const UNKNOWN_VALUE_REASON = 'is known only where Caddy runs';

/** Imports the sites of a Caddyfile, with one draft per address. */
export function importCaddy(source: string): ImportResult {
  const result = new ImportResult();
  const lines = readLines(source);
  for (const head of readBlock(lines)) {
    const isImport = head.words[0] === 'import';
    if (head.isHead && isImport) skipImport(head, 'import those files too', result);
    if (!head.isHead || isImport || !isSite(head, result)) {
      if (head.hasBlock) ignoreBlock(lines);
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
    const endpoint = parseSiteAddress(address, hasTls);
    if (endpoint === null) {
      const reason = address.includes('{') ? UNKNOWN_VALUE_REASON : 'is not the address of a site';
      result.skip(() => `line ${number}: ${shorten(address)} ${reason}`);
      continue;
    }
    const notesText = [endpoint.notes, notes.describeNotes()].filter(Boolean).join(' ');
    const exposure = isLocal ? ('local' as const) : endpoint.exposure;
    result.add({ ...endpoint, exposure, auth: notes.describeAuth(), notes: notesText });
  }
}

function skipImport({ words, number }: Line, advice: string, result: ImportResult): void {
  result.skip(() => `line ${number}: import ${shorten(words[1] ?? '')}: ${advice}`);
}

function ignoreBlock(lines: Lines): void {
  for (const line of readBlock(lines)) if (line.hasBlock) ignoreBlock(lines);
}

/**
 * Returns whether a line begins a site, with or without braces. Other blocks are global options, snippets `(name)` and
 * named routes `&(name)`. Records other lines without a block as skipped.
 * @throws ImportError for a brace without a space before it.
 */
function isSite(head: Line, result: ImportResult): boolean {
  const { words, hasBlock, number } = head;
  const [firstWord = ''] = words;
  const wordWithBrace = words.find((word) => word.endsWith('{'));
  if (wordWithBrace !== undefined) {
    throw new ImportError(
      `line ${number}: put a space before the brace of ${shorten(wordWithBrace)}`,
    );
  }
  if (hasBlock) return words.length > 0 && !/^&?\(.*\)$/s.test(firstWord);
  // A Caddyfile fragment may begin with a directive such as `respond`.
  if (/[.:*]|^localhost$/.test(firstWord) && !isVariable(words)) return true;
  const reason = isVariable(words) ? UNKNOWN_VALUE_REASON : 'belongs to no known site';
  result.skip(() => `line ${number}: ${shorten(firstWord)} ${reason}`);
  return false;
}

/** Reads a site or a nested block. @param outerBlock First word of the nested block, and its part of the site. */
function readSite(
  lines: Lines,
  site: Site,
  result: ImportResult,
  outerBlock?: { name: string; part: string | undefined },
): void {
  const { notes } = site;
  for (const line of readBlock(lines)) {
    const [name = '', ...values] = line.words;
    const targets = values.filter((value) => !/^[/@*]/.test(value));
    const part = /^[/@]/.test(values[0] ?? '') ? values[0] : outerBlock?.part;
    if (name === 'import') {
      const advice =
        'its additions to the site are unknown; check it for authentication and targets';
      skipImport(line, advice, result);
    } else if (
      name === 'reverse_proxy' ||
      (name === 'to' && outerBlock?.name === 'reverse_proxy')
    ) {
      for (const upstream of targets) notes.addUpstream(upstream);
    } else if (name === 'basic_auth' || name === 'basicauth') {
      notes.addRequirement('HTTP basic authentication', part);
    } else if (name === 'forward_auth') {
      notes.addRequirement(`Subrequest to ${targets[0] ?? ''}`, part);
    } else if (name === 'client_auth') notes.addRequirement('Client certificates');
    else if (name === 'tls' && outerBlock === undefined) site.hasTls = true;
    else if (name === 'bind' && outerBlock === undefined) {
      const isLocal = values.length > 0 && values.every(isLoopback);
      site.isLocal = site.isLocal !== false && isLocal;
    }
    if (!line.hasBlock) continue;
    // A `route` without a matcher applies to the whole site.
    const isPlainRoute = name === 'route' && values.length === 0;
    const innerPart = isPlainRoute ? outerBlock?.part : (values[0] ?? name);
    readSite(lines, site, result, { name, part: innerPart });
  }
}

function isLoopback(host: string): boolean {
  return getNetworkScope(removeBrackets(host)) === 'loopback';
}

/** Hosts may be internationalized (RFC 5890 §2.3.2.3) and contain `*` as a label. */
const ADDRESS_PATTERN =
  /^(?:(?<scheme>https?):\/\/)?(?<host>\[[\da-f:.]+\]|[\p{L}\p{M}\p{N}_.*-]*)(?::(?<port>\d{1,5}))?(?<path>\/.*)?$/iu;

/**
 * Parses `[SCHEME://][HOST][:PORT][/PATH]`. HTTPS is the default, except for port 80, and for addresses without a host
 * unless they have port 443 or the site configures TLS. Returns null if the address is invalid.
 * https://caddyserver.com/docs/caddyfile/concepts#addresses
 */
function parseSiteAddress(address: string, hasTls: boolean): ImportedEndpoint | null {
  const groups = address === '' ? undefined : ADDRESS_PATTERN.exec(address)?.groups;
  if (groups === undefined) return null;
  const { scheme: writtenScheme, host = '', port: writtenPort, path = '' } = groups;
  const isPlainHttpDefault = host === '' && !hasTls && writtenPort !== '443';
  const isHttp =
    writtenScheme === 'http' ||
    (writtenScheme === undefined && (writtenPort === '80' || isPlainHttpDefault));
  const [scheme, defaultPort] = isHttp ? ['http', 80] : ['https', 443];
  const port = Number(writtenPort ?? defaultPort);
  if (!isValidPort(port)) return null;
  const hostName = host === '' || host.includes('*') ? undefined : host;
  const url = `${scheme}://${hostName}${port === defaultPort ? '' : `:${port}`}/`;
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

/** Returns whether a line consists only of environment variables, which may be empty. */
function isVariable(words: readonly string[]): boolean {
  return words.every((word) => /^\{\$[^}]*\}$/.test(word));
}

/**
 * Yields the lines of a Caddyfile, and null at the end of each block. A trailing comma continues a list of addresses
 * on the next line. A site without braces is the only site and extends to the end of the file.
 * https://caddyserver.com/docs/caddyfile/concepts#structure
 * @throws ImportError for unclosed blocks, quotes and heredocs, unmatched braces, and blocks that are nested too deep.
 */
function* readLines(source: string): Generator<Line | null> {
  const openBlockLines: number[] = [];
  let tokens: Token[] = [];
  let hasUnbracedSite = false;
  const finishLine = (hasBlock: boolean, number: number): Line => {
    const isHead = openBlockLines.length === 0 && !hasUnbracedSite;
    const words = tokens.map(({ text }) => text);
    hasUnbracedSite ||= isHead && !hasBlock && words[0] !== 'import' && !isVariable(words);
    tokens = [];
    return { words, hasBlock, isHead, number };
  };
  for (const token of readTokens(source)) {
    const [firstToken = token] = tokens;
    const brace = token.isQuoted ? '' : token.text;
    if (brace === '{') {
      yield finishLine(true, firstToken.line);
      openBlockLines.push(token.line);
      if (openBlockLines.length > MAX_IMPORT_DEPTH) throw new ImportError(TOO_DEEP_MESSAGE);
      continue;
    }
    const lastToken = tokens.at(-1);
    const isAddress = openBlockLines.length === 0 && !hasUnbracedSite;
    const isContinued = isAddress && lastToken?.isQuoted === false && lastToken.text.endsWith(',');
    if (tokens.length > 0 && (brace === '}' || (token.isFirstOnLine && !isContinued))) {
      yield finishLine(false, firstToken.line);
    }
    if (brace !== '}') tokens.push(token);
    else if (openBlockLines.pop() !== undefined) yield null;
    else throw new ImportError(`line ${token.line}: ${UNMATCHED_BRACE_MESSAGE}`);
  }
  if (tokens[0] !== undefined) yield finishLine(false, tokens[0].line);
  const unclosedLine = openBlockLines.at(-1);
  if (unclosedLine !== undefined)
    throw new ImportError(`line ${unclosedLine}: ${UNCLOSED_BLOCK_MESSAGE}`);
}

/** A word, a quoted string or a heredoc. `isQuoted` is true for quoted strings and heredocs. */
type Token = { text: string; line: number; isQuoted: boolean; isFirstOnLine: boolean };

/** Pattern for a line continuation, a comment, space, the start of a heredoc, or a word. */
const PIECE_PATTERN = /\\\r?\n|#[^\n]*|[^\S\n]+|<<([\w-]+)\r?\n|[^\s"`](?:\\(?!\r?\n)|[^\s\\])*/y;

/**
 * Yields the tokens of a Caddyfile as Caddy's lexer does.
 * https://caddyserver.com/docs/caddyfile/concepts#tokens-and-quotes
 */
function* readTokens(configuration: string): Generator<Token> {
  // Environment variables are replaced by their defaults, which may contain several tokens.
  const source = configuration.replaceAll(/\{\$[^:}]*:([^}]*)\}/g, '$1');
  let [index, line, isFirstOnLine] = [0, 1, true];
  while (index < source.length) {
    const character = source[index] ?? '';
    let end = index + 1;
    let text: string | undefined;
    let isQuoted = character === '"' || character === '`';
    if (isQuoted) {
      const closeIndex =
        character === '"' ? findQuoteEnd(source, end, character) : source.indexOf(character, end);
      if (closeIndex === -1) throw createUnclosedError(line, 'quote', 'close it');
      text = source.slice(end, closeIndex);
      if (character === '"') text = text.replaceAll(/\\(["\\])/g, '$1');
      end = closeIndex + 1;
    } else if (character !== '\n') {
      PIECE_PATTERN.lastIndex = index;
      const [piece = character, marker] = PIECE_PATTERN.exec(source) ?? [];
      end = index + piece.length;
      if (marker !== undefined) {
        const closeIndex = source.indexOf(marker, end);
        const advice = `end it with ${shorten(marker)}`;
        if (closeIndex === -1) throw createUnclosedError(line, 'heredoc', advice);
        text = source.slice(end, closeIndex);
        isQuoted = true;
        end = closeIndex + marker.length;
      } else if (!/^(?:[\s#]|\\\r?\n)/.test(piece)) text = piece;
    }
    if (text !== undefined) {
      yield { text, line, isQuoted, isFirstOnLine };
      isFirstOnLine = false;
    } else if (character === '\n') isFirstOnLine = true;
    line += countNewlines(source, index, end);
    index = end;
  }
}

function createUnclosedError(line: number, kind: string, advice: string): ImportError {
  return new ImportError(`line ${line}: the ${kind} that begins here is not closed; ${advice}`);
}
