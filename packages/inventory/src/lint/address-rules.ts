import { isIP } from 'node:net';
import {
  type ParsedUrl,
  isSameHost,
  isUrlScheme,
  canBePublic,
  getPort,
  normalizeProtocol,
  getNetworkScope,
  parseUrl,
  getScheme,
  removeBrackets,
} from '../address.ts';
import { detectCredential } from '../credentials.ts';
import { MAX_HOST_CHARACTERS } from '../limits.ts';
import { quoteText, shorten } from '../text.ts';
import type { TypedFields, RuleProblem, Rule } from './rules.ts';

const NONE: readonly RuleProblem[] = [];

/** Reports credentials in URLs. The message never contains the credential. */
const credentialsInUrl: Rule = {
  code: 'lint/credentials-in-url',
  severity: 'error',
  create:
    () =>
    ({ url = '' }) => {
      const credential = detectCredential(url);
      if (credential === null) return NONE;
      const message = `url contains ${credential}, which every reader of the inventory can see; remove it, and change it where it is used`;
      return [{ key: 'url', message }];
    },
};

const exposureAddress: Rule = {
  code: 'lint/exposure-address',
  severity: 'warning',
  create: () => (fields) => {
    const { exposure } = fields;
    if (exposure !== 'public' && exposure !== 'local') return NONE;
    const hosts: [string, string | undefined][] = [
      ['url', parseUrl(fields.url ?? '')?.host],
      ['host', fields.host],
      ['domain', fields.domain],
    ];
    const places = hosts.flatMap(([key, host]) =>
      host === undefined ? [] : [{ key, host, reach: getNetworkScope(host) }],
    );
    const known = places.find(({ reach }) => reach !== null);
    if (known === undefined) return NONE;
    const { key, reach } = known;
    const host = shorten(known.host);
    if (exposure === 'public' && !places.some((place) => canBePublic(place.host))) {
      const network = reach === 'loopback' ? 'machine' : 'network';
      const message = `the endpoint is public, but ${host} is reachable only from its own ${network}; correct one of them, or write its public name in domain`;
      return [{ key, message }];
    }
    if (exposure === 'local' && reach === 'global') {
      const message = `the endpoint is local, but ${host} is an internet address; correct one of them`;
      return [{ key, message }];
    }
    return NONE;
  },
};

/** Labels of letters, digits, hyphens and underscores (RFC 1123 §2.1, RFC 5890 §2.3.2.3), or `*`. */
const NAME = /^(?:\*|[\p{L}\p{M}\p{N}_-]+)(?:\.(?:\*|[\p{L}\p{M}\p{N}_-]+))*\.?$/u;

const hostName: Rule = {
  code: 'lint/host-name',
  severity: 'error',
  create:
    () =>
    ({ host, domain }) => {
      const found = isHost(host) ? NONE : [findHostProblem('host', host)];
      return isHost(domain) ? found : [...found, findHostProblem('domain', domain)];
    },
};

function isHost(written = ''): boolean {
  const host = written.trim();
  if (host === '') return true;
  const isName = NAME.test(host) || isIP(removeBrackets(host)) !== 0;
  return host.length <= MAX_HOST_CHARACTERS && isName;
}

function findHostProblem(key: string, written = ''): RuleProblem {
  let advice = 'write one name or IP address, as in gateway.example.org';
  if (written.includes('://')) advice = 'write only its name or address here, and the rest in url';
  else if (/^[^:\s]+:\d+$|\]:\d+$/.test(written)) advice = 'write the port in port';
  return { key, message: `${key} is ${quoteText(written)}; ${advice}` };
}

const urlMismatch: Rule = {
  code: 'lint/url-mismatch',
  severity: 'error',
  create: () => (fields) => {
    const { url } = fields;
    if (url === undefined || url.trim() === '') return NONE;
    const address = parseUrl(url);
    // The URL parser reads "host:port" as a URL with the scheme "host".
    const isAddress =
      address !== null &&
      (address.hostname !== '' || url.includes('://')) &&
      !/[{}]/.test(address.host);
    if (!isAddress) {
      const message = `${quoteText(url)} is not an address; write it as in https://example.org/path`;
      return [{ key: 'url', message }];
    }
    return [
      ...hostMismatch(address, fields),
      ...findPortMismatch(address, fields),
      ...findProtocolMismatch(address, fields),
    ];
  },
};

function* hostMismatch({ host: named, hostname }: ParsedUrl, { host, domain }: TypedFields) {
  // Browsers normalize hosts such as `1.2.3` and `%61`.
  if (!isSameHost(named, hostname)) {
    const message = `url names the host ${shorten(named)}, which browsers read as ${shorten(hostname)}; write the intended one`;
    yield { key: 'url', message };
  }
  const others = [host, domain].filter((name) => name !== undefined && name.trim() !== '');
  if (named === '' || others.length === 0) return;
  if (others.some((name) => isSameHost(name ?? '', named))) return;
  const said = [
    ...(host === undefined ? [] : [`host is ${shorten(host)}`]),
    ...(domain === undefined ? [] : [`domain is ${shorten(domain)}`]),
  ].join(' and ');
  const message = `url leads to ${shorten(named)}, but ${said}; correct one of them`;
  yield { key: 'url', message };
}

function findPortMismatch(address: ParsedUrl, { port }: TypedFields): readonly RuleProblem[] {
  const implied = getPort(address);
  if (port === undefined || implied === undefined || port === implied) return NONE;
  const how = address.port === '' ? `implies port ${implied}` : `names port ${implied}`;
  return [{ key: 'port', message: `port is ${port}, but url ${how}; correct one of them` }];
}

const WEB = new Set(['http', 'https', 'ws', 'wss']);

/** Compares the protocol with the URL scheme. Other protocols, such as `tcp` or `grpc`, are compatible with all schemes. */
function findProtocolMismatch(
  address: ParsedUrl,
  { protocol = '' }: TypedFields,
): readonly RuleProblem[] {
  const scheme = getScheme(address);
  const declared = normalizeProtocol(protocol);
  if (declared === scheme || !isUrlScheme(declared) || !isUrlScheme(scheme)) return NONE;
  // Other protocols keep their names over TLS, as IMAP does, or over WebSockets, as MQTT does.
  const isCarried = scheme === 'ws' || scheme === 'wss' || scheme === `${declared}s`;
  if (isCarried && !WEB.has(declared)) return NONE;
  const message = `protocol is ${protocol}, but url begins with ${scheme}; correct one of them`;
  return [{ key: 'protocol', message }];
}

/** Rules for the URL, host and port of a record. */
export const addressRules: readonly Rule[] = [
  credentialsInUrl,
  exposureAddress,
  hostName,
  urlMismatch,
];
