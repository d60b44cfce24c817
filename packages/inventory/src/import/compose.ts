import { isIP } from 'node:net';
import { isWildcard, reachOf, withoutBrackets } from '../address.ts';
import { MAX_COMPOSE_BYTES } from '../limits.ts';
import { shorten } from '../text.ts';
import { type Found, Import, portsOf } from './draft.ts';
import { type Folder, IncludedFiles, list, mapping, parseMapping, text } from './source.ts';
import { interpolate, traefikEndpoints } from './traefik.ts';

/**
 * Imports the published ports of a Compose file, and the Traefik routers of its labels:
 * https://github.com/compose-spec/compose-spec/blob/main/05-services.md#ports
 * Ports between services, and those that Docker chooses, are no endpoints.
 */
export function importCompose(source: string, folder?: Folder): Import {
  const result = new Import();
  const files = folder && new IncludedFiles(folder, result);
  for (const found of endpointsOf(source, files, result)) result.add(found);
  return result;
}

function* endpointsOf(
  source: string,
  files: IncludedFiles | undefined,
  result: Import,
): Generator<Found> {
  const document = parseMapping(source, MAX_COMPOSE_BYTES);
  const { include } = document;
  if (files !== undefined) {
    for (const path of includedPaths(include)) {
      yield* files.read(path, (included) => endpointsOf(included, files, result));
    }
  } else if (include !== undefined) result.skip(() => 'include: import those files too');
  for (const [service, written] of Object.entries(mapping(document['services']))) {
    const definition = mapping(written);
    const profiles = list(definition['profiles']).flatMap((profile) => value(profile) ?? []);
    for (const found of serviceEndpoints(service, definition, result)) {
      const noted = profiles.length === 0 ? '' : ` Only with the profile ${profiles.join(' or ')}.`;
      yield { ...found, notes: `${found.notes ?? ''}${noted}` };
    }
  }
}

/** An item of `include` is a path, or has one or more as `path`. */
function includedPaths(include: unknown): string[] {
  return list(include).flatMap((item) => {
    const { path = item } = mapping(item);
    return (Array.isArray(path) ? path : [path]).flatMap((one) => value(one) ?? []);
  });
}

function* serviceEndpoints(
  service: string,
  definition: Record<string, unknown>,
  result: Import,
): Generator<Found> {
  const { ports, image, network_mode: network, extends: base } = definition;
  const skip = (reason: string) => result.skip(() => `${shorten(service)}: ${reason}`);
  if (base !== undefined) skip('it extends another service, whose ports count too');
  if (ports !== undefined && ports !== null && !Array.isArray(ports)) skip('its ports are no list');
  for (const written of list(ports)) {
    const published = readPorts(written);
    if (published === null) {
      skip(`the port ${shorten(JSON.stringify(written))} is not published, or not known`);
    } else for (const port of published) yield draftOf(service, port, value(image));
  }
  yield* traefikEndpoints(service, definition, result);
  if (value(network) === 'host') skip('it has all ports of its host');
}

function value(written: unknown): string | undefined {
  const found = text(written);
  return found && interpolate(found).text;
}

function draftOf(service: string, port: Published, image: string | undefined): Found {
  const { hostIp, number, target, protocol, unknown } = port;
  const notes = `Port ${target} in the container${image === undefined ? '' : ` of ${image}`}.`;
  return {
    key: [service, number ?? unknown ?? '', ...(protocol === 'tcp' ? [] : [protocol])],
    name: service,
    type: protocol,
    ...(hostIp !== undefined && reachOf(hostIp) === 'loopback' && { exposure: 'local' }),
    protocol,
    host: hostIp === undefined || isWildcard(hostIp) ? undefined : hostIp,
    port: number,
    service,
    notes: unknown === undefined ? notes : `${notes} Published at ${unknown}, which Compose sets.`,
  };
}

/** A port of a service that the host publishes. */
type Published = {
  /** Undefined for all addresses of the host, and when it is unknown. */
  hostIp: string | undefined;
  number: number | undefined;
  target: string;
  protocol: string;
  /** The published address when it depends on variables, such as `${BIND}:8080`. */
  unknown: string | undefined;
};

const SHORT_FORM =
  /^(?:(?<host>\[[^\][]+\]|[^:]*):)?(?<published>[^:]+):(?<target>[^:/]+)(?:\/(?<protocol>.+))?$/;
const HOST_NAME = /^[a-z_][\w.-]*$/i;

/** Reads one item of `ports`, in its short or long form; returns null when it publishes nothing. */
function readPorts(item: unknown): Published[] | null {
  const unknownNames = new Set<string>();
  const read = (written: unknown) => {
    const { text: found, unknown } = interpolate(text(written) ?? '');
    for (const name of unknown) unknownNames.add(name);
    return found;
  };
  const long = mapping(item);
  const parts =
    typeof item === 'object'
      ? {
          host: read(long['host_ip']),
          published: read(long['published']),
          target: read(long['target']),
          protocol: read(long['protocol']),
        }
      : SHORT_FORM.exec(read(item))?.groups;
  if (parts === undefined) return null;
  const { host = '', published = '', target = '' } = parts;
  const protocol = parts['protocol'] || 'tcp';
  const isVariable = (part: string) =>
    part.matchAll(/\$\{(\w+)\}/g).some(([, name = '']) => unknownNames.has(name));
  const plainHost = withoutBrackets(host);
  const isHost = host === '' || isIP(plainHost) !== 0 || HOST_NAME.test(plainHost);
  if (!/^\w+$/.test(protocol) || !(isHost || isVariable(host))) return null;
  const numbers = isVariable(published) ? [undefined] : portsOf(published);
  const targets = isVariable(target) ? [target] : portsOf(target);
  // When there are more ports than targets, Docker chooses.
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
