import { isIP } from 'node:net';
import { withoutBrackets } from '../host.ts';
import { shorten } from '../shorten.ts';
import { interpolate } from './interpolate.ts';
import { portsOf } from './port-range.ts';
import { mapping, text } from './yaml.ts';

/** A port of a service that the host publishes. */
export type Published = {
  /** The address of the host; undefined for all of them, and where it is not known. */
  hostIp: string | undefined;
  /** Undefined where it is not known. */
  port: number | undefined;
  target: string;
  protocol: string;
  /** What is published and not known, such as `${BIND}:8080`; undefined where all is known. */
  unknownAddress: string | undefined;
};

/** What stands in a file of one port or range of ports. */
type Written = {
  host: string;
  published: string;
  target: string;
  protocol: string;
  /** The names of the variables in these texts. */
  unknown: readonly string[];
};

const NAME = /^[a-z_][\w.-]*$/i;

/**
 * The ports that one item of a service's `ports` publishes, which has a short and a long form; null for one that is
 * none. Variables are those of an environment in which none is set.
 * https://github.com/compose-spec/compose-spec/blob/main/05-services.md#ports
 */
export function readPorts(item: unknown): Published[] | null {
  const written = typeof item === 'object' ? readLong(mapping(item)) : readShort(text(item) ?? '');
  if (written === null) return null;
  const { host, published, target, protocol, unknown } = written;
  const names = new Set(unknown);
  // A dollar sign of its own may stand before a brace too, and in no port.
  const hasVariable = (part: string) =>
    part.matchAll(/\$\{(\w+)\}/g).some(([, name = '']) => names.has(name));
  if (!/^\w+$/.test(protocol) || !(isHost(withoutBrackets(host)) || hasVariable(host))) return null;
  const ports = hasVariable(published) ? [undefined] : portsOf(published);
  const targets = hasVariable(target) ? [target] : portsOf(target);
  // Of more ports than targets Docker chooses one, and nobody else knows which.
  if (ports === null || targets === null || ports.length !== targets.length) return null;
  const hostIp = host === '' || hasVariable(host) ? undefined : withoutBrackets(host);
  return ports.map((port, index) => {
    const address = `${host}${host === '' ? '' : ':'}${port ?? published}`;
    return {
      hostIp,
      port,
      target: shorten(String(targets[index])),
      protocol: protocol.toLowerCase(),
      unknownAddress: hasVariable(address) ? shorten(address) : undefined,
    };
  });
}

/** `[HOST:]PUBLISHED:TARGET[/PROTOCOL]`, each port being a range of as many. A host of IPv6 may stand in brackets. */
function readShort(item: string): Written | null {
  const { text: written, unknown } = interpolate(item);
  const match =
    /^(?:(?<host>\[[^\][]+\]|[^:]*):)?(?<published>[^:]+):(?<target>[^:/]+)(?:\/(?<protocol>.+))?$/.exec(
      written,
    );
  if (match === null) return null;
  const { host = '', published = '', target = '', protocol = 'tcp' } = match.groups ?? {};
  return { host, published, target, protocol, unknown };
}

function readLong(port: Record<string, unknown>): Written {
  const valueOf = (key: string) => interpolate(text(port[key]) ?? '');
  const [host, published] = [valueOf('host_ip'), valueOf('published')];
  const [target, protocol] = [valueOf('target'), valueOf('protocol')];
  return {
    host: host.text,
    published: published.text,
    target: target.text,
    protocol: protocol.text || 'tcp',
    unknown: [...host.unknown, ...published.unknown, ...target.unknown, ...protocol.unknown],
  };
}

/** Whether it is an address, a name, or nothing, which is all addresses. */
function isHost(host: string): boolean {
  return host === '' || isIP(host) !== 0 || NAME.test(host);
}
