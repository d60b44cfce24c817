import { shorten } from '../shorten.ts';
import { MAX_HOST_CHARACTERS } from '../limits.ts';
import type { Found, LeftOut } from './draft.ts';
import { interpolate } from './interpolate.ts';
import { placeOf } from './place.ts';
import { Site } from './site.ts';
import { list, mapping, text } from './yaml.ts';

/** The labels of a service by their names in lower case; a list has them as `NAME=VALUE`. */
type Labels = ReadonlyMap<string, string>;

/** Entrypoints that by custom are encrypted: their ports are set where Traefik runs. */
const SECURE = /^(?:https|web-?secure|secure)$/i;

/** The beginning of each label of a router; one for UDP has no rule (Traefik, "UDP routers"). */
const ROUTER = /^traefik\.(http|tcp|udp)\.routers\.([^.]+)\./;

/** A matcher of a rule with its texts; `!` before it excludes what it matches. */
const MATCHER = /(!\s*)?\b(Host|HostSNI|HostRegexp|PathPrefix|Path)\(([^()]*)\)/gi;

/**
 * The routers that the labels of a Compose service define for Traefik, an endpoint for each of their hosts.
 * https://doc.traefik.io/traefik/reference/routing-configuration/other-providers/docker/
 */
export function* traefikEndpoints(
  service: string,
  definition: Record<string, unknown>,
  leftOut: LeftOut,
): Generator<Found> {
  const labels = readLabels(definition);
  if (labels.get('traefik.enable') === 'false') return;
  const prefixes = labels.keys().flatMap((label) => ROUTER.exec(label)?.slice(0, 1) ?? []);
  for (const prefix of new Set(prefixes)) {
    const [, kind = '', router = ''] = ROUTER.exec(prefix) ?? [];
    const rule = labels.get(`${prefix}rule`);
    if (rule === undefined) {
      leftOut.add(
        () =>
          `${shorten(service)}: router ${shorten(router)} of Traefik has no rule; add what it answers`,
      );
      continue;
    }
    const { hosts, paths, isOpen } = readRule(rule);
    if (isOpen || hosts.size === 0) {
      leftOut.add(
        () =>
          `${shorten(service)}: the rule ${shorten(rule)} of Traefik has hosts that are not known; add them`,
      );
    }
    const entrypoints = wordsOf(labels.get(`${prefix}entrypoints`));
    const isSecure =
      entrypoints.some((entrypoint) => SECURE.test(entrypoint)) ||
      labels
        .entries()
        .some(([name, value]) => name.startsWith(`${prefix}tls`) && value !== 'false');
    const protocol = kind === 'http' ? (isSecure ? 'https' : 'http') : isSecure ? 'tls' : 'tcp';
    const [path = '/', ...morePaths] = paths;
    const site = siteOf(labels, prefix);
    const target = portOf(labels, kind, labels.get(`${prefix}service`));
    const notes = [
      `Router ${router} of Traefik${entrypoints.length === 0 ? '' : ` at ${entrypoints.join(', ')}`}.`,
      ...(morePaths.length === 0 ? [] : [`Answers ${[...paths].join(', ')} only.`]),
      ...(target === undefined ? [] : [`Port ${target} in the container.`]),
      site.notes(),
    ];
    for (const host of hosts) {
      yield {
        key: [service, host, router],
        name: host,
        type: kind === 'http' ? 'http' : 'tcp',
        ...placeOf(host),
        url:
          kind === 'http'
            ? `${protocol}://${host}${morePaths.length === 0 ? path : '/'}`
            : undefined,
        protocol,
        service,
        auth: site.auth(),
        notes: notes.filter(Boolean).join(' '),
      };
    }
  }
}

function readLabels({ labels, deploy }: Record<string, unknown>): Labels {
  const read = new Map<string, string>();
  for (const written of [labels, mapping(deploy)['labels']]) {
    const entries = Array.isArray(written)
      ? list(written).map((item) => splitLabel(text(item) ?? ''))
      : Object.entries(mapping(written));
    for (const [name, value] of entries) {
      const plain = typeof value === 'boolean' ? String(value) : (text(value) ?? '');
      read.set(interpolate(name).text.toLowerCase(), interpolate(plain).text);
    }
  }
  return read;
}

function splitLabel(label: string): [string, string] {
  const at = label.indexOf('=');
  return at === -1 ? [label, ''] : [label.slice(0, at), label.slice(at + 1)];
}

/** The hosts and paths of a rule; `isOpen` where it also matches hosts that it does not name. */
function readRule(rule: string): { hosts: Set<string>; paths: Set<string>; isOpen: boolean } {
  const hosts = new Set<string>();
  const paths = new Set<string>();
  let isOpen = false;
  for (const [, not, matcher = '', args = ''] of rule.matchAll(MATCHER)) {
    if (not !== undefined) continue;
    for (const [, value = ''] of args.matchAll(/[`"']([^`"']*)[`"']/g)) {
      if (/^path/i.test(matcher)) paths.add(value.startsWith('/') ? value : `/${value}`);
      else if (isName(value) && !/regexp/i.test(matcher)) hosts.add(value);
      else isOpen = true;
    }
  }
  return { hosts, paths, isOpen };
}

function isName(host: string): boolean {
  return host.length <= MAX_HOST_CHARACTERS && /^[\w.-]+$/.test(host);
}

/** The middlewares of a router that are defined beside it and ask who comes. */
function siteOf(labels: Labels, prefix: string): Site {
  const site = new Site();
  for (const used of wordsOf(labels.get(`${prefix}middlewares`))) {
    const name = `traefik.http.middlewares.${used.replace(/@.*$/, '').toLowerCase()}.`;
    for (const [label, value] of labels) {
      if (!label.startsWith(name)) continue;
      const option = label.slice(name.length);
      if (option.startsWith('basicauth.')) site.asksFor('HTTP basic authentication');
      else if (option.startsWith('digestauth.')) site.asksFor('HTTP digest authentication');
      else if (option === 'forwardauth.address') site.asksFor(`Subrequest to ${value}`);
      else if (/^ip(?:allow|white)list\.sourcerange$/.test(option)) {
        site.note(`Allowed addresses: ${value}.`);
      }
    }
  }
  return site;
}

/** The port in the container: of the service that a router names, else of the only one that there is. */
function portOf(labels: Labels, kind: string, service: string | undefined): string | undefined {
  const ports = new Map(
    labels.entries().flatMap(([label, value]) => {
      const found = /^traefik\.(http|tcp)\.services\.([^.]+)\.loadbalancer\.server\.port$/.exec(
        label,
      );
      return found?.[1] === kind ? [[found[2], value] as const] : [];
    }),
  );
  if (service !== undefined) return ports.get(service.replace(/@.*$/, '').toLowerCase());
  return ports.size === 1 ? ports.values().next().value : undefined;
}

function wordsOf(written = ''): string[] {
  return written
    .split(',')
    .map((word) => word.trim())
    .filter(Boolean);
}
