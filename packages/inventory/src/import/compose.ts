import { isIP } from 'node:net';
import { getNetworkScope, isWildcardHost, removeBrackets, toHostProperties } from '../address.ts';
import { MAX_COMPOSE_BYTES, MAX_HOST_CHARACTERS } from '../limits.ts';
import { shorten } from '../text.ts';
import { type EndpointFacts, ImportResult, parsePortRange, SiteNotes } from './draft.ts';
import {
  type ImportFolder,
  IncludedFiles,
  parseMapping,
  toList,
  toMapping,
  toText,
} from './source.ts';

/**
 * Imports the published ports of a Compose file, and the Traefik routers of its labels:
 * https://github.com/compose-spec/compose-spec/blob/main/05-services.md#ports
 * Internal ports and ports that Docker chooses are skipped.
 */
export function importCompose(source: string, folder?: ImportFolder): ImportResult {
  const result = new ImportResult();
  const files = folder && new IncludedFiles(folder, result);
  for (const facts of readEndpoints(source, files, result)) result.add(facts);
  return result;
}

function* readEndpoints(
  source: string,
  files: IncludedFiles | undefined,
  result: ImportResult,
): Generator<EndpointFacts> {
  const document = parseMapping(source, MAX_COMPOSE_BYTES);
  const { include } = document;
  if (files !== undefined) {
    for (const path of getIncludedPaths(include)) {
      yield* files.read(path, (included) => readEndpoints(included, files, result));
    }
  } else if (include !== undefined) result.skip(() => 'include: import those files too');
  for (const [service, value] of Object.entries(toMapping(document['services']))) {
    const definition = toMapping(value);
    const profiles = toList(definition['profiles']).flatMap((profile) => toPlain(profile) ?? []);
    const profileNote =
      profiles.length === 0 ? '' : ` Only with the profile ${profiles.join(' or ')}.`;
    for (const facts of readService(service, definition, result)) {
      yield { ...facts, notes: `${facts.notes ?? ''}${profileNote}` };
    }
  }
}

/** Returns the paths of `include`, whose items are paths or objects with `path`. */
function getIncludedPaths(include: unknown): string[] {
  return toList(include).flatMap((item) => {
    const { path = item } = toMapping(item);
    return [path].flat().flatMap((one) => toPlain(one) ?? []);
  });
}

function* readService(
  service: string,
  definition: Record<string, unknown>,
  result: ImportResult,
): Generator<EndpointFacts> {
  const { ports, image, network_mode: network, extends: base } = definition;
  const skip = (reason: string) => result.skip(() => `${shorten(service)}: ${reason}`);
  if (base !== undefined) skip('it extends another service, whose ports count too');
  if (ports !== undefined && ports !== null && !Array.isArray(ports)) skip('its ports are no list');
  for (const written of toList(ports)) {
    const published = parsePorts(written);
    if (published === null) {
      skip(`the port ${shorten(JSON.stringify(written))} is not published, or not known`);
    }
    for (const port of published ?? []) yield createPortFacts(service, port, toPlain(image));
  }
  yield* findTraefikEndpoints(service, definition, result);
  if (toPlain(network) === 'host') skip('it has all ports of its host');
}

function toPlain(written: unknown): string | undefined {
  const found = toText(written);
  return found && interpolate(found).text;
}

function createPortFacts(
  service: string,
  { hostIp, number, target, protocol, unknown }: PublishedPort,
  image: string | undefined,
): EndpointFacts {
  const notes = `Port ${target} in the container${image === undefined ? '' : ` of ${image}`}.`;
  return {
    key: [service, number ?? unknown ?? '', ...(protocol === 'tcp' ? [] : [protocol])],
    name: service,
    type: protocol,
    ...(hostIp !== undefined && getNetworkScope(hostIp) === 'loopback' && { exposure: 'local' }),
    protocol,
    host: hostIp === undefined || isWildcardHost(hostIp) ? undefined : hostIp,
    port: number,
    service,
    notes: unknown === undefined ? notes : `${notes} Published at ${unknown}, which Compose sets.`,
  };
}

type PublishedPort = {
  /** Undefined if the port is published on all addresses, or if the address is unknown. */
  hostIp: string | undefined;
  number: number | undefined;
  target: string;
  protocol: string;
  /** Published address that depends on variables, such as `${BIND}:8080`. */
  unknown: string | undefined;
};

const SHORT_FORM =
  /^(?:(?<host>\[[^\][]+\]|[^:]*):)?(?<published>[^:]+):(?<target>[^:/]+)(?:\/(?<protocol>.+))?$/;
const HOST_NAME = /^[a-z_][\w.-]*$/i;

/** Parses one item of `ports` in short or long form. Returns null if the item publishes no port. */
function parsePorts(item: unknown): PublishedPort[] | null {
  const unknownNames = new Set<string>();
  const read = (written: unknown) => {
    const { text, unknown } = interpolate(toText(written) ?? '');
    for (const name of unknown) unknownNames.add(name);
    return text;
  };
  const { host_ip: hostIp, published: own, target: to, protocol: kind } = toMapping(item);
  const parts =
    typeof item === 'object'
      ? { host: read(hostIp), published: read(own), target: read(to), protocol: read(kind) }
      : SHORT_FORM.exec(read(item))?.groups;
  if (parts === undefined) return null;
  const { host = '', published = '', target = '' } = parts;
  const protocol = parts['protocol'] || 'tcp';
  const isVariable = (part: string) =>
    part.matchAll(/\$\{(\w+)\}/g).some(([, name = '']) => unknownNames.has(name));
  const plainHost = removeBrackets(host);
  const isHost = host === '' || isIP(plainHost) !== 0 || HOST_NAME.test(plainHost);
  if (!/^\w+$/.test(protocol) || !(isHost || isVariable(host))) return null;
  const numbers = isVariable(published) ? [undefined] : parsePortRange(published);
  const targets = isVariable(target) ? [target] : parsePortRange(target);
  // If the ranges differ in length, Docker chooses the ports.
  if (numbers === null || targets === null || numbers.length !== targets.length) return null;
  return numbers.map((number, index) => {
    const address = `${host}${host === '' ? '' : ':'}${number ?? published}`;
    return {
      hostIp: host === '' || isVariable(host) ? undefined : plainHost,
      number,
      target: shorten(String(targets[index])),
      protocol: protocol.toLowerCase(),
      unknown: isVariable(address) ? shorten(address) : undefined,
    };
  });
}

const MAX_NESTED_DEFAULTS = 10;

// Private-use placeholders for a literal dollar sign, and around the name of an unknown variable.
const [DOLLAR, OPEN, CLOSE] = ['\uE000', '\uE001', '\uE002'];
const VARIABLE = /\$([a-z_]\w*)|\$\{([a-z_]\w*)(?:(:?[-?+])([^${}]*))?\}/gi;

/**
 * Interpolates a value of a Compose file in an empty environment. A variable without a default remains
 * as `${NAME}`.
 * https://github.com/compose-spec/compose-spec/blob/main/12-interpolation.md
 */
function interpolate(written: string): { text: string; unknown: string[] } {
  let result = written.replaceAll('$$', DOLLAR);
  for (let round = 0; round < MAX_NESTED_DEFAULTS; round += 1) {
    const before = result;
    result = before.replaceAll(VARIABLE, (_, bare, name, operator = '', value = '') => {
      if (String(operator).endsWith('-')) return value;
      return String(operator).endsWith('+') ? '' : `${OPEN}${name ?? bare}${CLOSE}`;
    });
    if (result === before) break;
  }
  const unknown = Array.from(result.matchAll(/\uE001(\w+)\uE002/g), ([, name = '']) => name);
  const text = result.replaceAll(DOLLAR, '$').replaceAll(OPEN, '${').replaceAll(CLOSE, '}');
  return { text, unknown };
}

const SECURE = /^(?:https|web-?secure|secure)$/i;
const ROUTER = /^traefik\.(http|tcp|udp)\.routers\.([^.]+)\./;
/** Matcher of a rule. `!` negates the matcher. */
const MATCHER = /(!\s*)?\b(Host|HostSNI|HostRegexp|PathPrefix|Path)\(([^()]*)\)/gi;

/**
 * Yields an endpoint for each host of the routers that the labels of a Compose service define for Traefik.
 * https://doc.traefik.io/traefik/reference/routing-configuration/other-providers/docker/
 */
function* findTraefikEndpoints(
  service: string,
  definition: Record<string, unknown>,
  result: ImportResult,
): Generator<EndpointFacts> {
  const labels = readLabels(definition);
  if (labels.get('traefik.enable') === 'false') return;
  const prefixes = labels.keys().flatMap((label) => ROUTER.exec(label)?.slice(0, 1) ?? []);
  for (const prefix of new Set(prefixes)) {
    const [, kind = '', router = ''] = ROUTER.exec(prefix) ?? [];
    const rule = labels.get(`${prefix}rule`) ?? '';
    const { hosts, paths, hasOtherHosts } = parseRule(rule);
    if (hasOtherHosts || hosts.size === 0) {
      const place = `${shorten(service)}: router ${shorten(router)} of Traefik`;
      result.skip(() => `${place} has unknown hosts (${shorten(rule) || 'no rule'}); add them`);
    }
    const entrypoints = splitList(labels.get(`${prefix}entrypoints`));
    const isTlsLabel = ([name, value]: [string, string]) =>
      name.startsWith(`${prefix}tls`) && value !== 'false';
    const isSecure =
      entrypoints.some((name) => SECURE.test(name)) || labels.entries().some(isTlsLabel);
    const isHttp = kind === 'http';
    const protocol = (isHttp ? ['http', 'https'] : ['tcp', 'tls'])[isSecure ? 1 : 0];
    const notes = createMiddlewareNotes(labels, prefix);
    const [path = '/', ...morePaths] = paths;
    const at = entrypoints.length === 0 ? '' : ` at ${entrypoints.join(', ')}`;
    const sentences = [
      `Router ${router} of Traefik${at}.`,
      morePaths.length === 0 ? '' : `Answers ${[...paths].join(', ')} only.`,
      notes.describeRest(),
    ];
    for (const host of hosts) {
      yield {
        key: [service, host, router],
        name: host,
        type: isHttp ? 'http' : 'tcp',
        ...toHostProperties(host),
        url: isHttp ? `${protocol}://${host}${morePaths.length === 0 ? path : '/'}` : undefined,
        protocol,
        service,
        auth: notes.describeAuth(),
        notes: sentences.filter(Boolean).join(' '),
      };
    }
  }
}

/** Returns labels by lower-case name. Labels are a mapping or a list of `NAME=VALUE`. */
function readLabels({ labels, deploy }: Record<string, unknown>): Map<string, string> {
  const read = new Map<string, string>();
  for (const written of [labels, toMapping(deploy)['labels']]) {
    const entries: [string, unknown][] = Array.isArray(written)
      ? written.map((item) => {
          const [name = '', ...value] = (toText(item) ?? '').split('=');
          return [name, value.join('=')];
        })
      : Object.entries(toMapping(written));
    for (const [name, value] of entries) {
      const plain = typeof value === 'boolean' ? String(value) : (toText(value) ?? '');
      read.set(interpolate(name).text.toLowerCase(), interpolate(plain).text);
    }
  }
  return read;
}

/** Returns the hosts and paths of a rule. `hasOtherHosts` is true if the rule also matches hosts that it does not name. */
function parseRule(rule: string) {
  const hosts = new Set<string>();
  const paths = new Set<string>();
  let hasOtherHosts = false;
  for (const [, not, matcher = '', args = ''] of rule.matchAll(MATCHER)) {
    if (not !== undefined) continue;
    for (const [, value = ''] of args.matchAll(/[`"']([^`"']*)[`"']/g)) {
      const isName = value.length <= MAX_HOST_CHARACTERS && /^[\w.-]+$/.test(value);
      if (/^path/i.test(matcher)) paths.add(value.startsWith('/') ? value : `/${value}`);
      else if (isName && !/regexp/i.test(matcher)) hosts.add(value);
      else hasOtherHosts = true;
    }
  }
  return { hosts, paths, hasOtherHosts };
}

/** Describes the authentication middlewares of a router that are defined in the same labels. */
function createMiddlewareNotes(labels: ReadonlyMap<string, string>, prefix: string): SiteNotes {
  const notes = new SiteNotes();
  for (const used of splitList(labels.get(`${prefix}middlewares`))) {
    const name = `traefik.http.middlewares.${used.replace(/@.*$/, '').toLowerCase()}.`;
    for (const [label, value] of labels) {
      if (!label.startsWith(name)) continue;
      const option = label.slice(name.length);
      if (option.startsWith('basicauth.')) notes.addRequirement('HTTP basic authentication');
      else if (option.startsWith('digestauth.')) notes.addRequirement('HTTP digest authentication');
      else if (option === 'forwardauth.address') notes.addRequirement(`Subrequest to ${value}`);
      else if (/^ip(?:allow|white)list\.sourcerange$/.test(option)) {
        notes.note(`Allowed addresses: ${value}.`);
      }
    }
  }
  return notes;
}

function splitList(written = ''): string[] {
  const words = written.split(',').map((word) => word.trim());
  return words.filter(Boolean);
}
