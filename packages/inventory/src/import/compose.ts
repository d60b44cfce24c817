import { isIP } from 'node:net';
import { getNetworkScope, isWildcardHost, removeBrackets, toHostProperties } from '../address.ts';
import { MAX_COMPOSE_BYTES, MAX_HOST_CHARACTERS } from '../limits.ts';
import { shorten } from '../text.ts';
import { type ImportedEndpoint, ImportResult, parsePortRange, SiteNotes } from './draft.ts';
import {
  type ImportFolder,
  IncludedFiles,
  parseMapping,
  toList,
  toMapping,
  toText,
} from './source.ts';

/**
 * Imports the published ports and the Traefik routers of a Compose file:
 * https://github.com/compose-spec/compose-spec/blob/main/05-services.md#ports
 * Internal ports and ports that Docker chooses are skipped.
 */
export function importCompose(source: string, folder?: ImportFolder): ImportResult {
  const result = new ImportResult();
  const files = folder && new IncludedFiles(folder, result);
  for (const endpoint of readEndpoints(source, files, result)) result.add(endpoint);
  return result;
}

function* readEndpoints(
  source: string,
  files: IncludedFiles | undefined,
  result: ImportResult,
): Generator<ImportedEndpoint> {
  const document = parseMapping(source, MAX_COMPOSE_BYTES);
  const { include } = document;
  if (files !== undefined) {
    for (const path of getIncludedPaths(include)) {
      yield* files.read(path, (includedText) => readEndpoints(includedText, files, result));
    }
  } else if (include !== undefined) result.skip(() => 'include: import those files too');
  for (const [service, value] of Object.entries(toMapping(document['services']))) {
    const definition = toMapping(value);
    const profiles = toList(definition['profiles']).flatMap(
      (profile) => interpolateText(profile) ?? [],
    );
    const profileNote =
      profiles.length === 0 ? '' : ` Only with the profile ${profiles.join(' or ')}.`;
    for (const endpoint of readService(service, definition, result)) {
      yield { ...endpoint, notes: `${endpoint.notes ?? ''}${profileNote}` };
    }
  }
}

/** Returns the paths of `include`, whose items are paths or objects with `path`. */
function getIncludedPaths(include: unknown): string[] {
  return toList(include).flatMap((item) => {
    const { path = item } = toMapping(item);
    return [path].flat().flatMap((includedPath) => interpolateText(includedPath) ?? []);
  });
}

function* readService(
  service: string,
  definition: Record<string, unknown>,
  result: ImportResult,
): Generator<ImportedEndpoint> {
  const { ports, image, network_mode: network, extends: extendedService } = definition;
  const skip = (reason: string) => result.skip(() => `${shorten(service)}: ${reason}`);
  if (extendedService !== undefined) skip('it extends another service, whose ports count too');
  if (ports !== undefined && ports !== null && !Array.isArray(ports))
    skip('its ports are not a list');
  for (const portDefinition of toList(ports)) {
    const publishedPorts = parsePorts(portDefinition);
    if (publishedPorts === null) {
      skip(`the port ${shorten(JSON.stringify(portDefinition))} is not published, or not known`);
    }
    for (const port of publishedPorts ?? [])
      yield createPortEndpoint(service, port, interpolateText(image));
  }
  yield* findTraefikEndpoints(service, definition, result);
  if (interpolateText(network) === 'host') skip('it has all ports of its host');
}

function interpolateText(value: unknown): string | undefined {
  const text = toText(value);
  return text && interpolate(text).text;
}

function createPortEndpoint(
  service: string,
  { hostIp, number, target, protocol, unknownAddress }: PublishedPort,
  image: string | undefined,
): ImportedEndpoint {
  const notes = `Port ${target} in the container${image === undefined ? '' : ` of ${image}`}.`;
  return {
    key: [service, number ?? unknownAddress ?? '', ...(protocol === 'tcp' ? [] : [protocol])],
    name: service,
    type: protocol,
    ...(hostIp !== undefined && getNetworkScope(hostIp) === 'loopback' && { exposure: 'local' }),
    protocol,
    host: hostIp === undefined || isWildcardHost(hostIp) ? undefined : hostIp,
    port: number,
    service,
    notes:
      unknownAddress === undefined
        ? notes
        : `${notes} Published at ${unknownAddress}, which Compose sets.`,
  };
}

type PublishedPort = {
  /** Undefined if the item names no address, or if the address is unknown. */
  hostIp: string | undefined;
  number: number | undefined;
  target: string;
  protocol: string;
  /** Published address that depends on variables, such as `${BIND}:8080`. */
  unknownAddress: string | undefined;
};

const SHORT_PORT_PATTERN =
  /^(?:(?<host>\[[^\][]+\]|[^:]*):)?(?<published>[^:]+):(?<target>[^:/]+)(?:\/(?<protocol>.+))?$/;
const HOST_NAME_PATTERN = /^[a-z_][\w.-]*$/i;

/** Parses a `ports` item in short or long form. Returns null if it is invalid or publishes no port that it names. */
function parsePorts(item: unknown): PublishedPort[] | null {
  const unknownNames = new Set<string>();
  const read = (value: unknown) => {
    const { text, unknownNames: names } = interpolate(toText(value) ?? '');
    for (const name of names) unknownNames.add(name);
    return text;
  };
  const mapping = toMapping(item);
  const parts =
    typeof item === 'object'
      ? {
          host: read(mapping['host_ip']),
          published: read(mapping['published']),
          target: read(mapping['target']),
          protocol: read(mapping['protocol']),
        }
      : SHORT_PORT_PATTERN.exec(read(item))?.groups;
  if (parts === undefined) return null;
  const { host = '', published: publishedRange = '', target: targetRange = '' } = parts;
  const protocol = parts['protocol'] || 'tcp';
  const isVariable = (part: string) =>
    part.matchAll(/\$\{(\w+)\}/g).some(([, name = '']) => unknownNames.has(name));
  const hostWithoutBrackets = removeBrackets(host);
  const isHost =
    host === '' || isIP(hostWithoutBrackets) !== 0 || HOST_NAME_PATTERN.test(hostWithoutBrackets);
  if (!/^\w+$/.test(protocol) || !(isHost || isVariable(host))) return null;
  const numbers = isVariable(publishedRange) ? [undefined] : parsePortRange(publishedRange);
  const targets = isVariable(targetRange) ? [targetRange] : parsePortRange(targetRange);
  // If the ranges differ in length, Docker chooses the ports.
  if (numbers === null || targets === null || numbers.length !== targets.length) return null;
  return numbers.map((number, index) => {
    const address = `${host}${host === '' ? '' : ':'}${number ?? publishedRange}`;
    return {
      hostIp: host === '' || isVariable(host) ? undefined : hostWithoutBrackets,
      number,
      target: shorten(String(targets[index])),
      protocol: protocol.toLowerCase(),
      unknownAddress: isVariable(address) ? shorten(address) : undefined,
    };
  });
}

const MAX_NESTED_DEFAULTS = 10;

// Private-use characters that stand for a literal dollar sign, and enclose the names of unknown variables.
const [DOLLAR_PLACEHOLDER, VARIABLE_START, VARIABLE_END] = ['\uE000', '\uE001', '\uE002'];
const VARIABLE_PATTERN = /\$([a-z_]\w*)|\$\{([a-z_]\w*)(?:(:?[-?+])([^${}]*))?\}/gi;

/**
 * Interpolates a Compose value in an empty environment. Variables without a default remain as `${NAME}`, and
 * `${NAME:+text}` becomes empty.
 * https://github.com/compose-spec/compose-spec/blob/main/12-interpolation.md
 */
function interpolate(writtenText: string): { text: string; unknownNames: string[] } {
  let result = writtenText.replaceAll('$$', DOLLAR_PLACEHOLDER);
  for (let round = 0; round < MAX_NESTED_DEFAULTS; round += 1) {
    const previous = result;
    result = previous.replaceAll(
      VARIABLE_PATTERN,
      (_, bareName, name, operator = '', value = '') => {
        if (String(operator).endsWith('-')) return value;
        return String(operator).endsWith('+')
          ? ''
          : `${VARIABLE_START}${name ?? bareName}${VARIABLE_END}`;
      },
    );
    if (result === previous) break;
  }
  const unknownNames = Array.from(result.matchAll(/\uE001(\w+)\uE002/g), ([, name = '']) => name);
  const text = result
    .replaceAll(DOLLAR_PLACEHOLDER, '$')
    .replaceAll(VARIABLE_START, '${')
    .replaceAll(VARIABLE_END, '}');
  return { text, unknownNames };
}

const SECURE_ENTRYPOINT_PATTERN = /^(?:https|web-?secure|secure)$/i;
const ROUTER_LABEL_PATTERN = /^traefik\.(http|tcp|udp)\.routers\.([^.]+)\./;
/** Matcher in a Traefik rule, with an optional negation. */
const MATCHER_PATTERN = /(!\s*)?\b(Host|HostSNI|HostRegexp|PathPrefix|Path)\(([^()]*)\)/gi;

/**
 * Yields an endpoint for each host of the Traefik routers that the labels of a Compose service define.
 * https://doc.traefik.io/traefik/reference/routing-configuration/other-providers/docker/
 */
function* findTraefikEndpoints(
  service: string,
  definition: Record<string, unknown>,
  result: ImportResult,
): Generator<ImportedEndpoint> {
  const labels = readLabels(definition);
  if (labels.get('traefik.enable') === 'false') return;
  const prefixes = labels
    .keys()
    .flatMap((label) => ROUTER_LABEL_PATTERN.exec(label)?.slice(0, 1) ?? []);
  for (const prefix of new Set(prefixes)) {
    const [, kind = '', router = ''] = ROUTER_LABEL_PATTERN.exec(prefix) ?? [];
    const rule = labels.get(`${prefix}rule`) ?? '';
    const { hosts, paths, hasOtherHosts } = parseRule(rule);
    if (hasOtherHosts || hosts.size === 0) {
      const routerLabel = `${shorten(service)}: router ${shorten(router)} of Traefik`;
      result.skip(
        () => `${routerLabel} has unknown hosts (${shorten(rule) || 'no rule'}); add them`,
      );
    }
    const entrypoints = splitList(labels.get(`${prefix}entrypoints`));
    const isTlsLabel = ([name, value]: [string, string]) =>
      name.startsWith(`${prefix}tls`) && value !== 'false';
    const isSecure =
      entrypoints.some((name) => SECURE_ENTRYPOINT_PATTERN.test(name)) ||
      labels.entries().some(isTlsLabel);
    const isHttp = kind === 'http';
    const protocol = (isHttp ? ['http', 'https'] : ['tcp', 'tls'])[isSecure ? 1 : 0];
    const notes = createMiddlewareNotes(labels, prefix);
    const [path = '/', ...morePaths] = paths;
    const entrypointNote = entrypoints.length === 0 ? '' : ` at ${entrypoints.join(', ')}`;
    const sentences = [
      `Router ${router} of Traefik${entrypointNote}.`,
      morePaths.length === 0 ? '' : `Answers ${[...paths].join(', ')} only.`,
      notes.describeNotes(),
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

/** Returns the labels by lower-case name. Compose accepts a mapping or a list of `NAME=VALUE`. */
function readLabels({ labels, deploy }: Record<string, unknown>): Map<string, string> {
  const valuesByName = new Map<string, string>();
  for (const labelSource of [labels, toMapping(deploy)['labels']]) {
    const entries: [string, unknown][] = Array.isArray(labelSource)
      ? labelSource.map((label) => {
          const [name = '', ...value] = (toText(label) ?? '').split('=');
          return [name, value.join('=')];
        })
      : Object.entries(toMapping(labelSource));
    for (const [name, value] of entries) {
      const labelValue = typeof value === 'boolean' ? String(value) : (toText(value) ?? '');
      valuesByName.set(interpolate(name).text.toLowerCase(), interpolate(labelValue).text);
    }
  }
  return valuesByName;
}

/**
 * Returns the hosts and paths of a rule. `hasOtherHosts` is true if the rule also matches hosts that it does not name.
 */
function parseRule(rule: string) {
  const hosts = new Set<string>();
  const paths = new Set<string>();
  let hasOtherHosts = false;
  for (const [, negation, matcher = '', args = ''] of rule.matchAll(MATCHER_PATTERN)) {
    if (negation !== undefined) continue;
    for (const [, value = ''] of args.matchAll(/[`"']([^`"']*)[`"']/g)) {
      const isName = value.length <= MAX_HOST_CHARACTERS && /^[\w.-]+$/.test(value);
      if (/^path/i.test(matcher)) paths.add(value.startsWith('/') ? value : `/${value}`);
      else if (isName && !/regexp/i.test(matcher)) hosts.add(value);
      else hasOtherHosts = true;
    }
  }
  return { hosts, paths, hasOtherHosts };
}

/** Describes the authentication and allow-list middlewares of a router that are defined in the same labels. */
function createMiddlewareNotes(labels: ReadonlyMap<string, string>, prefix: string): SiteNotes {
  const notes = new SiteNotes();
  for (const middleware of splitList(labels.get(`${prefix}middlewares`))) {
    const labelPrefix = `traefik.http.middlewares.${middleware.replace(/@.*$/, '').toLowerCase()}.`;
    for (const [label, value] of labels) {
      if (!label.startsWith(labelPrefix)) continue;
      const option = label.slice(labelPrefix.length);
      if (option.startsWith('basicauth.')) notes.addRequirement('HTTP basic authentication');
      else if (option.startsWith('digestauth.')) notes.addRequirement('HTTP digest authentication');
      else if (option === 'forwardauth.address') notes.addRequirement(`Subrequest to ${value}`);
      else if (/^ip(?:allow|white)list\.sourcerange$/.test(option)) {
        notes.addNote(`Allowed addresses: ${value}.`);
      }
    }
  }
  return notes;
}

function splitList(text = ''): string[] {
  const words = text.split(',').map((word) => word.trim());
  return words.filter(Boolean);
}
