import { reachOf } from '../lint/address.ts';
import { shorten } from '../shorten.ts';
import { checkNumber, type Found, type Import, LeftOut } from './draft.ts';
import { type Folder, IncludedFiles } from './included-files.ts';
import { AccessRules } from './nginx-access.ts';
import { type Directive, readDirectives } from './nginx-directives.ts';
import { readListen } from './nginx-listen.ts';
import { ServerNames } from './nginx-names.ts';
import {
  conditionOf,
  type Context,
  contextOf,
  inheritedSettings,
  isSetting,
  type Settings,
  wayOf,
} from './nginx-settings.ts';
import { type Place, placeOf } from './place.ts';
import { listed, Site } from './site.ts';

/** A block that is open. */
type Block = { name: string; place: string; access: AccessRules };

/** A `server` block, as far as it was read. */
type Server = {
  context: Context;
  /** How many blocks are open around its directives, itself included. */
  depth: number;
  listens: (readonly string[])[];
  names: ServerNames;
  settings: Settings;
  access: AccessRules;
  /** Whether a part of it lets in other addresses than those of private networks. */
  hasWiderPart: boolean;
  site: Site;
};

/**
 * What nginx serves: the `server` blocks, each of its addresses with its first name.
 * @param folder Where the files are that it includes; without one, each `include` is left out.
 */
export function importNginx(source: string, folder?: Folder): Import {
  const filesIn = () => (folder === undefined ? undefined : new IncludedFiles(folder));
  const inherited = inheritedSettings(directivesOf(source, filesIn(), new LeftOut()));
  const leftOut = new LeftOut();
  const found: Found[] = [];
  const blocks: Block[] = [];
  let server: Server | undefined;
  for (const directive of directivesOf(source, filesIn(), leftOut)) {
    if (directive === null) {
      if (server?.depth === blocks.length) {
        const outer = inherited.get(server.context);
        const settings = new Map([...(outer?.settings ?? []), ...server.settings]);
        const access = server.access.isEmpty ? (outer?.access ?? server.access) : server.access;
        addServer({ ...server, settings, access }, found, leftOut);
        server = undefined;
      }
      const block = blocks.pop();
      // The rules of a part are for it alone.
      if (server !== undefined && block !== undefined && !block.access.isEmpty) {
        server.hasWiderPart ||= !block.access.isPrivate;
        for (const sentence of block.access.sentences(block.place)) server.site.note(sentence);
      }
      continue;
    }
    const { name, values, opens } = directive;
    if (name === 'include') leftOut.add(toldInclude(values[0] ?? '', server !== undefined));
    else if (server !== undefined) readDirective(directive, { server, blocks, leftOut });
    if (!opens) continue;
    blocks.push({ name, place: values.join(' '), access: new AccessRules() });
    if (name === 'server') server ??= emptyServer(blocks);
  }
  return { found, leftOut };
}

/** The directives of a configuration, and in the place of each `include` those of its files where they are given. */
function* directivesOf(
  source: string,
  files: IncludedFiles | undefined,
  leftOut: LeftOut,
): Generator<Directive | null> {
  for (const directive of readDirectives(source)) {
    const [pattern = ''] = directive?.values ?? [];
    if (files === undefined || directive?.name !== 'include') yield directive;
    else yield* files.read(pattern, leftOut, ({ text }) => directivesOf(text, files, leftOut));
  }
}

function toldInclude(file: string, isInServer: boolean): () => string {
  return () =>
    isInServer
      ? `include ${shorten(file)}: what it adds to the server is not read; look there for authentication and targets`
      : `include ${shorten(file)}: import that file too`;
}

function emptyServer(blocks: readonly Block[]): Server {
  return {
    context: contextOf(blocks[0]?.name) ?? 'http',
    depth: blocks.length,
    listens: [],
    names: new ServerNames(),
    settings: new Map(),
    access: new AccessRules(),
    hasWiderPart: false,
    site: new Site(),
  };
}

type Reading = { server: Server; blocks: readonly Block[]; leftOut: LeftOut };

function readDirective({ name, values }: Directive, { server, blocks, leftOut }: Reading) {
  const { site, depth, names, listens, settings } = server;
  const [value = ''] = values;
  // Undefined for the server itself.
  const part = blocks.length === depth ? undefined : (blocks.at(-1)?.place ?? '');
  const access = part === undefined ? server.access : blocks.at(-1)?.access;
  if (access?.take(name, value)) return;
  if (name.endsWith('_pass')) site.passesTo(value);
  else if (part !== undefined && isSetting(name)) {
    const way = wayOf(name, value);
    const condition = conditionOf(name, value);
    if (condition !== undefined) site.mayAskFor(condition, part);
    else if (way !== undefined) site.asksFor(way, part);
    else if (name.startsWith('auth_')) site.leavesOpen(part);
  } else if (part !== undefined) return;
  else if (isSetting(name)) settings.set(name, value);
  else if (name === 'listen') listens.push(values);
  else if (name === 'server_name') for (const one of values) names.add(one, leftOut);
}

function addServer(server: Server, found: Found[], leftOut: LeftOut) {
  const { site, listens, names, settings } = server;
  const isAnyEnough = settings.get('satisfy') === 'any';
  for (const [name, value] of settings) {
    const way = wayOf(name, value);
    const condition = name === 'satisfy' ? undefined : conditionOf(name, value);
    if (condition !== undefined) site.mayAskFor(condition);
    // A certificate is asked for before any of these.
    else if (way !== undefined && isAnyEnough && name !== 'ssl_verify_client') {
      site.mayAskFor(`${way} or an allowed address`);
    } else if (way !== undefined) site.asksFor(way);
  }
  const others = names.others();
  const also = others.size === 0 ? '' : `Also ${listed(others, ', ')}.`;
  // Where one way is enough, an address that is not allowed may come in by another.
  const exposure = isAnyEnough || server.hasWiderPart ? undefined : server.access.exposure;
  const notes = [also, ...server.access.sentences(), site.notes()].filter(Boolean).join(' ');
  const auth = site.auth();
  // A server may be asked for by its address.
  const place: Place = names.domain === undefined ? {} : placeOf(names.domain);
  const seen = new Set<string>();
  let ports = 0;
  // A server that does not say where listens on port 80.
  for (const [address = '', ...flags] of listens.length === 0 ? [['80']] : listens) {
    const listened = readListen(address);
    if (listened === null) {
      leftOut.add(() => `listen ${shorten([address, ...flags].join(' '))}: it is no port`);
      continue;
    }
    const { host } = listened;
    const protocol = protocolOf(server, flags);
    ports += listened.ports.length;
    // Of IPv4 and IPv6 there is one draft, and of what is repeated more often none that counts.
    checkNumber(Math.ceil(ports / 2));
    for (const port of listened.ports) {
      const shown = [host ?? place.host, port, protocol].join();
      if (seen.has(shown)) continue;
      seen.add(shown);
      const one = toFound(server, place, { host, port, protocol });
      found.push({ ...one, exposure: one.exposure ?? exposure, auth, notes });
      checkNumber(found.length);
    }
  }
}

function protocolOf({ context, settings }: Server, flags: readonly string[]): string {
  if (context !== 'http') return flags.includes('udp') ? 'udp' : 'tcp';
  const isSecure = flags.includes('ssl') || flags.includes('quic') || settings.get('ssl') === 'on';
  return isSecure ? 'https' : 'http';
}

type Listen = { host: string | undefined; port: number; protocol: string };

function toFound(
  { context, names }: Server,
  place: Place,
  { host, port, protocol }: Listen,
): Found {
  const { domain, title } = names;
  const isHttp = context === 'http';
  const usual = protocol === 'https' ? 443 : 80;
  return {
    key: [title ?? host ?? 'nginx', port, ...(protocol === 'udp' ? ['udp'] : [])],
    name: title ?? `nginx on port ${port}`,
    type: isHttp ? 'http' : protocol,
    exposure: host !== undefined && reachOf(host) === 'loopback' ? 'local' : undefined,
    url:
      domain === undefined || !isHttp
        ? undefined
        : `${protocol}://${domain}${port === usual ? '' : `:${port}`}/`,
    protocol,
    host: host ?? place.host,
    port,
    domain: place.domain,
    service: 'nginx',
  };
}
