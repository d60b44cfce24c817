import { reachOf } from '../lint/address.ts';
import { MAX_COMPOSE_BYTES } from '../limits.ts';
import { shorten } from '../shorten.ts';
import { checkNumber, type Found, type Import, LeftOut } from './draft.ts';
import { interpolate } from './interpolate.ts';
import { type Published, readPorts } from './compose-ports.ts';
import { type Folder, type IncludedFile, IncludedFiles } from './included-files.ts';
import { traefikEndpoints } from './traefik.ts';
import { list, mapping, parseMapping, text } from './yaml.ts';

/**
 * The published ports of a Compose file, and the routers that its labels define for Traefik: https://github.com/compose-spec/compose-spec/blob/main/05-services.md#ports
 * Ports that services only offer to one another, and those that Docker chooses, are no endpoints. What a variable
 * without a default decides is left open, and noted.
 */
export function importCompose(source: string, folder?: Folder): Import {
  const files = folder === undefined ? undefined : new IncludedFiles(folder);
  const leftOut = new LeftOut();
  const found: Found[] = [];
  for (const one of endpointsOf(source, files, leftOut)) {
    found.push(one);
    checkNumber(found.length);
  }
  return { found, leftOut };
}

function* endpointsOf(
  source: string,
  files: IncludedFiles | undefined,
  leftOut: LeftOut,
): Generator<Found> {
  const document = parseMapping(source, MAX_COMPOSE_BYTES);
  const { include } = document;
  if (files !== undefined) {
    const use = ({ text: included }: IncludedFile) => endpointsOf(included, files, leftOut);
    for (const path of includedPaths(include)) yield* files.read(path, leftOut, use);
  } else if (include !== undefined) leftOut.add(() => 'include: import those files too');
  for (const [service, written] of Object.entries(mapping(document['services']))) {
    const definition = mapping(written);
    const profiles = list(definition['profiles']).flatMap((profile) => valueOf(profile) ?? []);
    for (const one of serviceEndpoints(service, definition, leftOut)) {
      const noted = profiles.length === 0 ? '' : ` Only with the profile ${profiles.join(' or ')}.`;
      yield { ...one, notes: `${one.notes ?? ''}${noted}` };
    }
  }
}

/** An item of `include` is a path, or has one or more as `path`. */
function includedPaths(include: unknown): string[] {
  return list(include).flatMap((item) => {
    const { path = item } = mapping(item);
    return (Array.isArray(path) ? path : [path]).flatMap((one) => valueOf(one) ?? []);
  });
}

function* serviceEndpoints(
  service: string,
  definition: Record<string, unknown>,
  leftOut: LeftOut,
): Generator<Found> {
  const { ports, image, network_mode: network, extends: base } = definition;
  const imageName = valueOf(image);
  const named = shorten(service);
  if (base !== undefined)
    leftOut.add(() => `${named}: it extends another service, whose ports count too`);
  if (ports !== undefined && ports !== null && !Array.isArray(ports)) {
    leftOut.add(() => `${named}: its ports are no list`);
  }
  for (const written of list(ports)) {
    const read = readPorts(written);
    if (read === null)
      leftOut.add(
        () =>
          `${named}: the port ${shorten(JSON.stringify(written))} is not published, or not known`,
      );
    else for (const port of read) yield toFound(service, port, imageName);
  }
  yield* traefikEndpoints(service, definition, leftOut);
  if (valueOf(network) === 'host') leftOut.add(() => `${named}: it has all ports of its host`);
}

function valueOf(written: unknown): string | undefined {
  const value = text(written);
  return value && interpolate(value).text;
}

function toFound(
  service: string,
  { hostIp, port, target, protocol, unknownAddress }: Published,
  image: string | undefined,
): Found {
  const isLocal = hostIp !== undefined && reachOf(hostIp) === 'loopback';
  const isWildcard = hostIp === undefined || /^(0\.0\.0\.0|::|)$/.test(hostIp);
  const unknown =
    unknownAddress === undefined
      ? ''
      : ` Published at ${unknownAddress}, which is known where Compose runs.`;
  const of = image === undefined ? '' : ` of ${image}`;
  return {
    key: [service, port ?? unknownAddress ?? '', ...(protocol === 'tcp' ? [] : [protocol])],
    name: service,
    type: protocol,
    ...(isLocal && { exposure: 'local' }),
    protocol,
    host: isWildcard ? undefined : hostIp,
    port,
    service,
    notes: `Port ${target} in the container${of}.${unknown}`,
  };
}
