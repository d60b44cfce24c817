import { isIP } from 'node:net';
import {
  canBePublic,
  getNetworkScope,
  getPort,
  getScheme,
  isSameHost,
  isUrlScheme,
  normalizeProtocol,
  type ParsedUrl,
  parseUrl,
  removeBrackets,
} from '../address.ts';
import { detectCredential } from '../credentials.ts';
import type { LintCode } from '../finding.ts';
import { MAX_HOST_CHARACTERS } from '../limits.ts';
import { quoteText, shorten } from '../text.ts';
import type { Rule, RuleProblem, TypedFields } from './rules.ts';

/** Labels of letters, digits, hyphens and underscores (RFC 1123 §2.1, RFC 5890 §2.3.2.3), or `*`. */
const HOST_NAME_PATTERN = /^(?:\*|[\p{L}\p{M}\p{N}_-]+)(?:\.(?:\*|[\p{L}\p{M}\p{N}_-]+))*\.?$/u;

const NO_PROBLEMS: RuleProblem[] = [];

function findHostProblems(key: string, writtenHost: string | undefined): RuleProblem[] {
  if (writtenHost === undefined) return NO_PROBLEMS;
  const host = writtenHost.trim();
  const isName = HOST_NAME_PATTERN.test(host) || isIP(removeBrackets(host)) !== 0;
  if (host === '' || (host.length <= MAX_HOST_CHARACTERS && isName)) return NO_PROBLEMS;
  let advice = 'write one name or IP address, as in gateway.example.org';
  if (writtenHost.includes('://'))
    advice = 'write only its name or address here, and the rest in url';
  else if (/^[^:\s]+:\d+$|\]:\d+$/.test(writtenHost)) advice = 'write the port in port';
  return [{ key, message: `${key} is ${quoteText(writtenHost)}; ${advice}` }];
}

function* findHostMismatches(
  { host: urlHost, hostname }: ParsedUrl,
  { host, domain }: TypedFields,
): Generator<RuleProblem> {
  // Browsers normalize hosts such as `1.2.3` and `%61`.
  if (!isSameHost(urlHost, hostname)) {
    const message = `url names the host ${shorten(urlHost)}, which browsers read as ${shorten(hostname)}; write the intended one`;
    yield { key: 'url', message };
  }
  const otherHosts = [host, domain].filter((name) => name !== undefined && name.trim() !== '');
  if (urlHost === '' || otherHosts.length === 0) return;
  if (otherHosts.some((name) => isSameHost(name ?? '', urlHost))) return;
  const statements = Object.entries({ host, domain })
    .filter(([, name]) => name !== undefined)
    .map(([key, name]) => `${key} is ${shorten(name ?? '')}`);
  const message = `url leads to ${shorten(urlHost)}, but ${statements.join(' and ')}; correct one of them`;
  yield { key: 'url', message };
}

function* findPortMismatches(address: ParsedUrl, { port }: TypedFields): Generator<RuleProblem> {
  const impliedPort = getPort(address);
  if (port === undefined || impliedPort === undefined || port === impliedPort) return;
  const portNote =
    address.port === '' ? `implies port ${impliedPort}` : `names port ${impliedPort}`;
  yield { key: 'port', message: `port is ${port}, but url ${portNote}; correct one of them` };
}

const WEB_PROTOCOLS = new Set(['http', 'https', 'ws', 'wss']);

/**
 * Compares the protocol with the URL scheme. A protocol that is not a known URL scheme, such as `tcp` or `grpc`, is
 * compatible with every scheme.
 */
function* findProtocolMismatches(
  address: ParsedUrl,
  { protocol = '' }: TypedFields,
): Generator<RuleProblem> {
  const scheme = getScheme(address);
  const declaredProtocol = normalizeProtocol(protocol);
  if (declaredProtocol === scheme || !isUrlScheme(declaredProtocol) || !isUrlScheme(scheme)) return;
  // Other protocols keep their names over TLS, as IMAP does, or over WebSockets, as MQTT does.
  const isCarried = scheme === 'ws' || scheme === 'wss' || scheme === `${declaredProtocol}s`;
  if (isCarried && !WEB_PROTOCOLS.has(declaredProtocol)) return;
  const message = `protocol is ${protocol}, but url begins with ${scheme}; correct one of them`;
  yield { key: 'protocol', message };
}

/** Rules for the URL, host and domain of a record, and for properties that contradict them. */
export const ADDRESS_RULES = {
  'lint/credentials-in-url': {
    severity: 'error',
    check({ url = '' }) {
      const credential = detectCredential(url);
      if (credential === null) return undefined;
      const message = `url contains ${credential}, which every reader of the inventory can see; remove it, and change it where it is used`;
      return { key: 'url', message };
    },
  },
  'lint/exposure-address': {
    severity: 'warning',
    check({ exposure, url = '', host, domain }) {
      if (exposure !== 'public' && exposure !== 'local') return undefined;
      const hosts = Object.entries({ url: parseUrl(url)?.host, host, domain }).flatMap(
        ([key, name]) => (name === undefined ? [] : [{ key, name, scope: getNetworkScope(name) }]),
      );
      const scopedHost = hosts.find(({ scope }) => scope !== null);
      if (scopedHost === undefined) return undefined;
      const { key, scope } = scopedHost;
      const name = shorten(scopedHost.name);
      if (exposure === 'public' && !hosts.some((candidate) => canBePublic(candidate.name))) {
        const network = scope === 'loopback' ? 'machine' : 'network';
        const message = `the endpoint is public, but ${name} is reachable only from its own ${network}; correct one of them, or write its public name in domain`;
        return { key, message };
      }
      const message = `the endpoint is local, but ${name} is an internet address; correct one of them`;
      return exposure === 'local' && scope === 'global' ? { key, message } : undefined;
    },
  },
  'lint/host-name': {
    severity: 'error',
    check: ({ host, domain }) =>
      findHostProblems('host', host).concat(findHostProblems('domain', domain)),
  },
  'lint/url-mismatch': {
    severity: 'error',
    check(fields) {
      const { url } = fields;
      if (url === undefined || url.trim() === '') return undefined;
      const address = parseUrl(url);
      // The URL parser reads "host:port" as a URL with the scheme "host".
      const isAddress =
        address !== null &&
        (address.hostname !== '' || url.includes('://')) &&
        !/[{}]/.test(address.host);
      if (!isAddress) {
        const message = `${quoteText(url)} is not an address; write it as in https://example.org/path`;
        return { key: 'url', message };
      }
      return [
        ...findHostMismatches(address, fields),
        ...findPortMismatches(address, fields),
        ...findProtocolMismatches(address, fields),
      ];
    },
  },
} satisfies Partial<Record<LintCode, Rule>>;
