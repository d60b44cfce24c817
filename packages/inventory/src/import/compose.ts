import { reachOf } from '../lint/address.ts';
import { checkNumber, type Found, type Import } from './draft.ts';
import { list, mapping, parseMapping, text } from './yaml.ts';

/** A port of a service that the host publishes. */
type Published = { hostIp: string | undefined; port: number; target: string; protocol: string };

/**
 * The published ports of a Compose file: https://github.com/compose-spec/compose-spec/blob/main/05-services.md#ports
 * Ports that services only offer to one another, and those that Docker chooses, are no endpoints.
 */
export function importCompose(source: string): Import {
  const found: Found[] = [];
  const leftOut: string[] = [];
  const document = parseMapping(source);
  if (document['include'] !== undefined) leftOut.push('include: import those files too');
  for (const [service, definition] of Object.entries(mapping(document['services']))) {
    const { ports, image, network_mode: network, extends: base } = mapping(definition);
    if (base !== undefined)
      leftOut.push(`${service}: it extends another service, whose ports count too`);
    if (ports !== undefined && ports !== null && !Array.isArray(ports)) {
      leftOut.push(`${service}: its ports are no list`);
    }
    for (const written of list(ports)) {
      const read =
        typeof written === 'object' ? readLong(mapping(written)) : readShort(text(written) ?? '');
      if (read === null)
        leftOut.push(
          `${service}: the port ${JSON.stringify(written)} is not published, or not known`,
        );
      else for (const port of read) found.push(toFound(service, port, text(image)));
      checkNumber(found.length);
    }
    if (network === 'host') leftOut.push(`${service}: it has all ports of its host`);
  }
  return { found, leftOut };
}

function toFound(
  service: string,
  { hostIp, port, target, protocol }: Published,
  image: string | undefined,
): Found {
  const isLocal = hostIp !== undefined && reachOf(hostIp) === 'loopback';
  const isWildcard = hostIp === undefined || /^(0\.0\.0\.0|::|)$/.test(hostIp);
  const of = image === undefined ? '' : ` of ${image}`;
  return {
    key: [service, port, ...(protocol === 'tcp' ? [] : [protocol])],
    name: service,
    type: protocol,
    ...(isLocal && { exposure: 'local' }),
    protocol,
    host: isWildcard ? undefined : hostIp,
    port,
    service,
    notes: `Port ${target} in the container${of}.`,
  };
}

/** `[HOST:]PUBLISHED:TARGET[/PROTOCOL]`, each port being a range of as many. */
function readShort(written: string): Published[] | null {
  const match =
    /^(?:(?<host>\[[\da-f:.]+\]|\d+(?:\.\d+){3}|[a-z_][\w.-]*):)?(?<published>[\d-]+):(?<target>[\d-]+)(?:\/(?<protocol>\w+))?$/i.exec(
      interpolate(written),
    );
  if (match?.groups === undefined) return null;
  const { host, published = '', target = '', protocol = 'tcp' } = match.groups;
  return pair(published, target, { host: host?.replaceAll(/[[\]]/g, ''), protocol });
}

function readLong(port: Record<string, unknown>): Published[] | null {
  const published = interpolate(text(port['published']) ?? '');
  const target = interpolate(text(port['target']) ?? '');
  return pair(published, target, {
    host: text(port['host_ip']),
    protocol: text(port['protocol']) ?? 'tcp',
  });
}

function pair(
  published: string,
  target: string,
  { host, protocol }: { host: string | undefined; protocol: string },
): Published[] | null {
  const ports = range(published);
  const targets = range(target);
  if (ports === null || targets === null) return null;
  return ports.map((port, index) => ({
    hostIp: host,
    port,
    target: String(targets[index] ?? targets[0]),
    protocol: protocol.toLowerCase(),
  }));
}

function range(written: string): number[] | null {
  const [, first = '', last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(written) ?? [];
  const [from, to] = [Number(first), Number(last)];
  if (first === '' || from < 1 || to > 65_535 || to < from) return null;
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

/** Variables with a default have it; others are known only where Compose runs. */
function interpolate(written: string): string {
  return written.replaceAll(/\$\{\w+:?-([^}]*)\}/g, '$1');
}
