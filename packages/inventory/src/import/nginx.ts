import { getNetworkScope, isWildcardHost, removeBrackets, toHostProperties } from '../address.ts';
import { MAX_HOST_CHARACTERS, MAX_IMPORT_DEPTH } from '../limits.ts';
import { shorten } from '../text.ts';
import { formatShortList, ImportError, ImportResult, parsePortRange, SiteNotes } from './draft.ts';
import {
  countNewlines,
  findQuoteEnd,
  type ImportFolder,
  IncludedFiles,
  readBlock,
  TOO_DEEP_MESSAGE,
  UNCLOSED_BLOCK_MESSAGE,
  UNMATCHED_BRACE_MESSAGE,
} from './source.ts';

/** Authentication and access rules of one level, such as `http` or `server`. */
type Level = { settings: Map<string, string>; accessRules: string[] };

type Server = {
  isHttp: boolean;
  /** Enclosing level. The server inherits all of its settings, even those after the server's block. */
  outerLevel: Level;
  ownLevel: Level;
  listens: (readonly string[])[];
  names: string[];
  notes: SiteNotes;
};

/** Directive. `hasBlock` is true if the directive begins a block, which ends with null. */
type Directive = { name: string; values: string[]; hasBlock: boolean };
type Directives = Iterator<Directive | null>;

/**
 * Imports the `server` blocks of an nginx configuration, with one draft per address.
 * @param folder Folder of included files. Without a folder, includes are skipped.
 */
export function importNginx(source: string, folder?: ImportFolder): ImportResult {
  const result = new ImportResult();
  const directives = expandIncludes(source, folder && new IncludedFiles(folder, result));
  const servers: Server[] = [];
  for (const server of findServers(directives, true, result)) {
    result.checkEndpointCount(servers.push(server));
  }
  for (const server of servers) addServer(server, result);
  return result;
}

function createLevel(): Level {
  return { settings: new Map(), accessRules: [] };
}

function* findServers(
  directives: Directives,
  isHttp: boolean,
  result: ImportResult,
): Generator<Server> {
  const level = createLevel();
  for (const { name, values, hasBlock } of readBlock(directives)) {
    if (name === 'include') {
      result.skip(() => `include ${shorten(values[0] ?? '')}: import that file too`);
    } else readDirective(level, name, values);
    if (!hasBlock) continue;
    if (name === 'server') {
      const ownLevel = createLevel();
      const server = {
        isHttp,
        outerLevel: level,
        ownLevel,
        listens: [],
        names: [],
        notes: new SiteNotes(),
      };
      readServer(directives, server, result);
      yield server;
    } else yield* findServers(directives, isHttp && !/^(mail|stream)$/.test(name), result);
  }
}

const AUTH_DIRECTIVE_PATTERN = /^(?:auth_basic|auth_request|satisfy|ssl|ssl_verify_client)$/;

function readDirective(
  { settings, accessRules }: Level,
  name: string,
  [value = '']: readonly string[],
): void {
  if (AUTH_DIRECTIVE_PATTERN.test(name)) settings.set(name, value);
  else if (name === 'allow' || name === 'deny') accessRules.push(`${name} ${value}`);
}

/** Reads a server or a nested block. @param location Nested block, whose settings do not apply to the whole server. */
function readServer(
  directives: Directives,
  server: Server,
  result: ImportResult,
  location?: string,
): void {
  const { notes, ownLevel } = server;
  const level = location === undefined ? ownLevel : createLevel();
  for (const { name, values, hasBlock } of readBlock(directives)) {
    const [value = ''] = values;
    if (name === 'include') {
      const advice =
        'its additions to the server are unknown; check it for authentication and targets';
      result.skip(() => `include ${shorten(value)}: ${advice}`);
    } else if (name.endsWith('_pass')) notes.addUpstream(value);
    else if (location === undefined && name === 'listen') server.listens.push(values);
    else if (location === undefined && name === 'server_name') server.names.push(...values);
    else readDirective(level, name, values);
    if (location !== undefined) {
      const authMethod = describeAuthSetting(name, value);
      if (authMethod !== undefined) notes.addRequirement(authMethod, location);
      else if (name.startsWith('auth_') && value === 'off') notes.addOpenPart(location);
    }
    if (hasBlock) readServer(directives, server, result, values.join(' '));
  }
  if (location !== undefined) addAccessRuleNote(notes, level.accessRules, ` at ${location}`);
}

function addAccessRuleNote(notes: SiteNotes, rules: readonly string[], part = ''): void {
  if (rules.length > 0) notes.addNote(`Access rules${part}: ${formatShortList(rules, ', ')}.`);
}

/**
 * Describes the authentication that a setting requires. Returns undefined if there is none, or if the value depends on
 * a variable.
 */
function describeAuthSetting(name: string, value: string): string | undefined {
  if (name === 'ssl_verify_client') return value === 'on' ? 'Client certificates' : undefined;
  if (value === 'off' || value.startsWith('$')) return undefined;
  if (name === 'auth_basic') return 'HTTP basic authentication';
  return name === 'auth_request' ? `Subrequest to ${value}` : undefined;
}

function addServer(server: Server, result: ImportResult): void {
  const { isHttp, outerLevel, ownLevel, listens, names, notes } = server;
  const settings = new Map([...outerLevel.settings, ...ownLevel.settings]);
  for (const [name, value] of settings) {
    const authMethod = describeAuthSetting(name, value);
    if (authMethod === undefined) continue;
    const isOptional = settings.get('satisfy') === 'any' && name !== 'ssl_verify_client';
    if (isOptional) notes.addNote(`${authMethod} or an allowed address.`);
    else notes.addRequirement(authMethod);
  }
  addAccessRuleNote(
    notes,
    ownLevel.accessRules.length === 0 ? outerLevel.accessRules : ownLevel.accessRules,
  );
  const { domain, title, otherNames } = sortServerNames(names, result);
  const otherNamesNote =
    otherNames.length === 0 ? '' : `Also ${formatShortList(otherNames, ', ')}.`;
  const notesText = [otherNamesNote, notes.describeNotes()].filter(Boolean).join(' ');
  // Without an exact name, the domain of the server is unknown.
  const hostProperties = domain === undefined ? {} : toHostProperties(domain);
  const seenEndpoints = new Set<string>();
  let portCount = 0;
  // Without `listen`, a server uses port 80.
  for (const [address = '', ...flags] of listens.length === 0 ? [['80']] : listens) {
    const listenAddress = parseListen(address);
    if (listenAddress === null) {
      result.skip(() => `listen ${shorten([address, ...flags].join(' '))}: it is not a port`);
      continue;
    }
    const isSecure =
      flags.includes('ssl') || flags.includes('quic') || settings.get('ssl') === 'on';
    const transport = flags.includes('udp') ? 'udp' : 'tcp';
    const protocol = isHttp ? (isSecure ? 'https' : 'http') : transport;
    portCount += listenAddress.ports.length;
    // IPv4 and IPv6 may share a draft, so there may be half as many drafts as ports.
    result.checkEndpointCount(Math.ceil(portCount / 2));
    const { host } = listenAddress;
    for (const port of listenAddress.ports) {
      const endpoint = [host ?? hostProperties.host, port, protocol].join();
      if (seenEndpoints.has(endpoint)) continue;
      seenEndpoints.add(endpoint);
      const suffix = port === (isSecure ? 443 : 80) ? '' : `:${port}`;
      result.add({
        key: [title ?? host ?? 'nginx', port, ...(protocol === 'udp' ? ['udp'] : [])],
        name: title ?? `nginx on port ${port}`,
        type: isHttp ? 'http' : protocol,
        exposure: host !== undefined && getNetworkScope(host) === 'loopback' ? 'local' : undefined,
        url: isHttp && domain ? `${protocol}://${domain}${suffix}/` : undefined,
        protocol,
        host: host ?? hostProperties.host,
        port,
        domain: hostProperties.domain,
        service: 'nginx',
        auth: notes.describeAuth(),
        notes: notesText,
      });
    }
  }
}

/** An exact name, or a name with a wildcard for its first or last labels. */
const SERVER_NAME_PATTERN = /^(?<start>\*?\.)?[\w-]+(?:\.[\w-]+)*\.?(?<end>\.\*)?$/;

/** Returns the first exact name and the other names: https://nginx.org/en/docs/http/server_names.html */
function sortServerNames(names: readonly string[], result: ImportResult) {
  const exactNames: string[] = [];
  const wildcardNames: string[] = [];
  for (const name of new Set(names)) {
    const groups =
      name.length > MAX_HOST_CHARACTERS ? undefined : SERVER_NAME_PATTERN.exec(name)?.groups;
    // `_` matches no request, and an empty name only requests without a host.
    if (name === '_' || name === '') continue;
    if (groups === undefined) {
      const reason = name.startsWith('~') ? 'a regular expression; add its names' : 'not a name';
      result.skip(() => `server_name ${shorten(name)}: it is ${reason}`);
    } else if (groups['start'] === '.') {
      exactNames.push(name.slice(1));
      wildcardNames.push(`*${name}`);
    } else if (groups['start'] ?? groups['end']) wildcardNames.push(name);
    else exactNames.push(name);
  }
  const [title, ...otherNames] = [...exactNames, ...wildcardNames];
  return { domain: exactNames[0], title, otherNames };
}

const LISTEN_PATTERN = /^(?<host>\[[\da-f:.]+\]|\*|[\w.-]+)(?::(?<ports>\d+(?:-\d+)?))?$/i;

/**
 * Parses `ADDRESS[:PORT]` or `PORT`. A port may be a range. Returns null for Unix sockets and invalid addresses. The
 * host is undefined if the server listens on all addresses.
 * https://nginx.org/en/docs/http/ngx_http_core_module.html#listen
 */
function parseListen(address: string): { host: string | undefined; ports: number[] } | null {
  if (address.length > MAX_HOST_CHARACTERS) return null;
  const isPort = /^\d+(?:-\d+)?$/.test(address);
  const groups = isPort ? { host: '*', ports: address } : LISTEN_PATTERN.exec(address)?.groups;
  const ports = groups?.['host'] && parsePortRange(groups['ports'] ?? '80');
  if (!ports) return null;
  const host = removeBrackets(groups?.['host'] ?? '');
  return { host: isWildcardHost(host) ? undefined : host, ports };
}

/** Yields directives. With `files`, replaces each `include` with the directives of the included files. */
function* expandIncludes(
  source: string,
  files: IncludedFiles | undefined,
): Generator<Directive | null> {
  for (const directive of readDirectives(source)) {
    const [pattern = ''] = directive?.values ?? [];
    if (files === undefined || directive?.name !== 'include') yield directive;
    else yield* files.read(pattern, (text) => expandIncludes(text, files));
  }
}

/**
 * Yields the directives of a configuration, and null at the end of each block.
 * https://nginx.org/en/docs/beginners_guide.html#conf_structure
 * @throws ImportError for unclosed blocks and quotes, unmatched braces, and blocks that are nested too deep.
 */
function* readDirectives(source: string): Generator<Directive | null> {
  const openBlockLines: number[] = [];
  let words: string[] = [];
  for (const { text, line, isDelimiter } of readTokens(source)) {
    if (!isDelimiter) {
      words.push(text);
      continue;
    }
    if (text === '}') {
      if (openBlockLines.pop() === undefined) {
        throw new ImportError(`line ${line}: ${UNMATCHED_BRACE_MESSAGE}`);
      }
      yield null;
    } else {
      const [name = '', ...values] = words;
      if (text === '{') openBlockLines.push(line);
      if (openBlockLines.length > MAX_IMPORT_DEPTH) throw new ImportError(TOO_DEEP_MESSAGE);
      yield { name, values, hasBlock: text === '{' };
    }
    words = [];
  }
  const unclosedLine = openBlockLines.at(-1);
  if (unclosedLine !== undefined)
    throw new ImportError(`line ${unclosedLine}: ${UNCLOSED_BLOCK_MESSAGE}`);
}

/** Yields words without their quotes, and the delimiters of directives and blocks. */
function* readTokens(source: string) {
  let line = 1;
  let index = 0;
  // First word of the current directive.
  let name: string | undefined;
  while (index < source.length) {
    const character = source[index] ?? '';
    let end = index + 1;
    if (character === '#') end = (source.indexOf('\n', index) + 1 || source.length + 1) - 1;
    else if (character === ';' || character === '{' || character === '}') {
      const isLua = character === '{' && name?.endsWith('_by_lua_block');
      if (isLua) end = findLuaEnd(source, end, line);
      yield { text: isLua ? ';' : character, line, isDelimiter: true };
      name = undefined;
    } else if (!/\s/.test(character)) {
      const isQuoted = character === '"' || character === "'";
      end = isQuoted ? findQuoteEnd(source, index + 1, character) + 1 : findWordEnd(source, index);
      if (end === 0) {
        throw new ImportError(`line ${line}: the quote that begins here is not closed; close it`);
      }
      const writtenWord = isQuoted ? source.slice(index + 1, end - 1) : source.slice(index, end);
      const text = writtenWord.replaceAll(/\\(["'\\])/g, '$1');
      name ??= text;
      yield { text, line, isDelimiter: false };
    }
    line += countNewlines(source, index, end);
    index = end;
  }
}

/** Returns the end index of an unquoted word. The brace of a variable such as `${name}` does not open a block. */
function findWordEnd(source: string, from: number): number {
  let index = from;
  while (index < source.length) {
    const character = source[index] ?? '';
    if (/[\s;]/.test(character) || (character === '{' && source[index - 1] !== '$')) break;
    index += character === '\\' ? 2 : 1;
  }
  return Math.min(index, source.length);
}

/** Returns the end index of a Lua block. Ignores braces in line comments and quoted strings. */
function findLuaEnd(source: string, from: number, line: number): number {
  const token = /--[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[{}]/g;
  token.lastIndex = from;
  let depth = 1;
  for (let match = token.exec(source); match !== null; match = token.exec(source)) {
    if (match[0] === '{') depth += 1;
    else if (match[0] === '}') depth -= 1;
    if (depth === 0) return token.lastIndex;
  }
  throw new ImportError(`line ${line}: ${UNCLOSED_BLOCK_MESSAGE}`);
}
