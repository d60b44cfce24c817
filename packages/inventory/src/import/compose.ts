import { reachOf } from '../lint/address.ts';
import { MAX_COMPOSE_BYTES } from '../limits.ts';
import { shorten } from '../shorten.ts';
import { checkNumber, type Found, type Import, LeftOut } from './draft.ts';
import { interpolate } from './interpolate.ts';
import { type Published, readPorts } from './compose-ports.ts';
import { list, mapping, parseMapping, text } from './yaml.ts';

/**
 * The published ports of a Compose file: https://github.com/compose-spec/compose-spec/blob/main/05-services.md#ports
 * Ports that services only offer to one another, and those that Docker chooses, are no endpoints. What a variable
 * without a default decides is left open, and noted.
 */
export function importCompose(source: string): Import {
  const found: Found[] = [];
  const leftOut = new LeftOut();
  const document = parseMapping(source, MAX_COMPOSE_BYTES);
  if (document['include'] !== undefined) leftOut.add(() => 'include: import those files too');
  for (const [service, definition] of Object.entries(mapping(document['services']))) {
    const { ports, image, network_mode: network, extends: base } = mapping(definition);
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
      else for (const port of read) found.push(toFound(service, port, imageName));
      checkNumber(found.length);
    }
    if (valueOf(network) === 'host') leftOut.add(() => `${named}: it has all ports of its host`);
  }
  return { found, leftOut };
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
