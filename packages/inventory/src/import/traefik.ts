import { placeOf } from '../address.ts';
import { MAX_HOST_CHARACTERS } from '../limits.ts';
import { shorten } from '../text.ts';
import { type Found, type Import, SiteNotes } from './draft.ts';
import { list, mapping, text } from './source.ts';

/** Defaults are nested less deep than this. */
const MAX_NESTED_DEFAULTS = 10;

// Private-use placeholders for a literal dollar sign, and around the name of an unknown variable.
const [DOLLAR, OPEN, CLOSE] = ['\uE000', '\uE001', '\uE002'];
const VARIABLE = /\$([a-z_]\w*)|\$\{([a-z_]\w*)(?:(:?[-?+])([^${}]*))?\}/gi;

/**
 * Interpolates a value of a Compose file in an empty environment. A variable without a default is unknown and stays
 * as `${NAME}`.
 * https://github.com/compose-spec/compose-spec/blob/main/12-interpolation.md
 */
export function interpolate(written: string): { text: string; unknown: string[] } {
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
  return {
    text: result.replaceAll(DOLLAR, '$').replaceAll(OPEN, '${').replaceAll(CLOSE, '}'),
    unknown,
  };
}

/** Entry points that use TLS by convention; Traefik configures their ports. */
const SECURE = /^(?:https|web-?secure|secure)$/i;
/** A label of a router; UDP routers have no rule. */
const ROUTER = /^traefik\.(http|tcp|udp)\.routers\.([^.]+)\./;
/** A matcher of a rule; `!` excludes what it matches. */
const MATCHER = /(!\s*)?\b(Host|HostSNI|HostRegexp|PathPrefix|Path)\(([^()]*)\)/gi;

/**
 * Yields an endpoint for each host of the routers that the labels of a Compose service define for Traefik.
 * https://doc.traefik.io/traefik/reference/routing-configuration/other-providers/docker/
 */
export function* traefikEndpoints(
  service: string,
  definition: Record<string, unknown>,
  result: Import,
): Generator<Found> {
  const labels = readLabels(definition);
  if (labels.get('traefik.enable') === 'false') return;
  const prefixes = labels.keys().flatMap((label) => ROUTER.exec(label)?.slice(0, 1) ?? []);
  for (const prefix of new Set(prefixes)) {
    const [, kind = '', router = ''] = ROUTER.exec(prefix) ?? [];
    const rule = labels.get(`${prefix}rule`) ?? '';
    const { hosts, paths, hasOtherHosts } = readRule(rule);
    if (hasOtherHosts || hosts.size === 0) {
      result.skip(
        () =>
          `${shorten(service)}: router ${shorten(router)} of Traefik has unknown hosts (${shorten(rule) || 'no rule'}); add them`,
      );
    }
    const entrypoints = wordsOf(labels.get(`${prefix}entrypoints`));
    const isSecure =
      entrypoints.some((entrypoint) => SECURE.test(entrypoint)) ||
      labels.entries().some(([name, value]) => {
        return name.startsWith(`${prefix}tls`) && value !== 'false';
      });
    const isHttp = kind === 'http';
    const protocol = (isHttp ? ['http', 'https'] : ['tcp', 'tls'])[isSecure ? 1 : 0];
    const notes = middlewareNotes(labels, prefix);
    const [path = '/', ...morePaths] = paths;
    const sentences = [
      `Router ${router} of Traefik${entrypoints.length === 0 ? '' : ` at ${entrypoints.join(', ')}`}.`,
      morePaths.length === 0 ? '' : `Answers ${[...paths].join(', ')} only.`,
      notes.text(),
    ];
    for (const host of hosts) {
      yield {
        key: [service, host, router],
        name: host,
        type: isHttp ? 'http' : 'tcp',
        ...placeOf(host),
        url: isHttp ? `${protocol}://${host}${morePaths.length === 0 ? path : '/'}` : undefined,
        protocol,
        service,
        auth: notes.auth(),
        notes: sentences.filter(Boolean).join(' '),
      };
    }
  }
}

/** The labels by their names in lower case; a list has them as `NAME=VALUE`. */
function readLabels({ labels, deploy }: Record<string, unknown>): ReadonlyMap<string, string> {
  const read = new Map<string, string>();
  for (const written of [labels, mapping(deploy)['labels']]) {
    const entries: [string, unknown][] = Array.isArray(written)
      ? list(written).map((item) => {
          const [name = '', ...value] = (text(item) ?? '').split('=');
          return [name, value.join('=')];
        })
      : Object.entries(mapping(written));
    for (const [name, value] of entries) {
      const plain = typeof value === 'boolean' ? String(value) : (text(value) ?? '');
      read.set(interpolate(name).text.toLowerCase(), interpolate(plain).text);
    }
  }
  return read;
}

/** Returns the hosts and paths of a rule; `hasOtherHosts` when it matches hosts that it does not name. */
function readRule(rule: string) {
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

/** Notes the authentication by middlewares of a router that are defined beside it. */
function middlewareNotes(labels: ReadonlyMap<string, string>, prefix: string): SiteNotes {
  const notes = new SiteNotes();
  for (const used of wordsOf(labels.get(`${prefix}middlewares`))) {
    const name = `traefik.http.middlewares.${used.replace(/@.*$/, '').toLowerCase()}.`;
    for (const [label, value] of labels) {
      if (!label.startsWith(name)) continue;
      const option = label.slice(name.length);
      if (option.startsWith('basicauth.')) notes.requires('HTTP basic authentication');
      else if (option.startsWith('digestauth.')) notes.requires('HTTP digest authentication');
      else if (option === 'forwardauth.address') notes.requires(`Subrequest to ${value}`);
      else if (/^ip(?:allow|white)list\.sourcerange$/.test(option)) {
        notes.note(`Allowed addresses: ${value}.`);
      }
    }
  }
  return notes;
}

function wordsOf(written = ''): string[] {
  return written
    .split(',')
    .map((word) => word.trim())
    .filter(Boolean);
}
