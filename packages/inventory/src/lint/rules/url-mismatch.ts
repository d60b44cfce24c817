import { isSameHost } from '../../host.ts';
import { type Address, readAddress } from '../address.ts';
import { quoted, shorten } from '../../shorten.ts';
import { isScheme, portOf, protocolName, schemeOf } from '../../url.ts';
import type { Found, Fields } from '../rule.ts';
import { simpleRule } from '../rule.ts';

/** Finds addresses that say something else than the host, the domain, the port or the protocol beside them. */
export const urlMismatch = simpleRule('lint/url-mismatch', 'error', (fields) => {
  const { url } = fields;
  if (url === undefined || url.trim() === '') return [];
  const address = readAddress(url);
  // "host:port" reads as an address with the scheme "host".
  if (address === null || (address.hostname === '' && !url.includes('://')))
    return [noAddress(url)];
  const { host } = address;
  // The URL Standard allows braces in a host, and DNS has no such name: they stand for one that is not told.
  if (/[{}]/.test(host)) return [noAddress(url)];
  return [
    ...rewrittenProblems(host, address),
    ...hostProblems(host, fields),
    ...portProblems(address, fields),
    ...protocolProblems(address, fields),
  ];
});

function noAddress(url: string): Found {
  const message = `${quoted(url)} is no address; write it as in https://example.org/path`;
  return { key: 'url', message };
}

/** Browsers and most other tools read a name that resembles an IPv4 address as one, and `%61` as a letter. */
function rewrittenProblems(host: string, { hostname }: Address): Found[] {
  if (isSameHost(host, hostname)) return [];
  const message = `url names the host ${shorten(host)}, which browsers take for ${shorten(hostname)}; write the one that is meant`;
  return [{ key: 'url', message }];
}

function hostProblems(named: string, { host, domain }: Fields): Found[] {
  const others = [host, domain].filter((name) => name !== undefined && name.trim() !== '');
  if (named === '' || others.length === 0) return [];
  if (others.some((name) => isSameHost(name ?? '', named))) return [];
  const said = [
    ...(host === undefined ? [] : [`host is ${shorten(host)}`]),
    ...(domain === undefined ? [] : [`domain is ${shorten(domain)}`]),
  ].join(' and ');
  return [
    { key: 'url', message: `url leads to ${shorten(named)}, but ${said}; correct the wrong one` },
  ];
}

function portProblems(address: Address, { port }: Fields): Found[] {
  const meant = portOf(address);
  if (port === undefined || meant === undefined || port === meant) return [];
  const how = address.port === '' ? `means port ${meant}, as it names none` : `names port ${meant}`;
  return [{ key: 'port', message: `port is ${port}, but url ${how}; correct the wrong one` }];
}

/** What says whether it is with TLS or not, and whether it is WebSockets or not. */
const WEB = new Set(['http', 'https', 'ws', 'wss']);

/** What is no scheme of addresses, such as `tcp` below them or `grpc` above, says nothing against one. */
function protocolProblems(address: Address, { protocol = '' }: Fields): Found[] {
  const scheme = schemeOf(address);
  const declared = protocolName(protocol);
  if (declared === scheme || !isScheme(declared) || !isScheme(scheme)) return [];
  // Other protocols keep their names over TLS, as IMAP does, and some go over WebSockets, as MQTT does.
  const isCarried = scheme === 'ws' || scheme === 'wss' || scheme === `${declared}s`;
  if (isCarried && !WEB.has(declared)) return [];
  const message = `protocol is ${protocol}, but url begins with ${scheme}; correct the wrong one`;
  return [{ key: 'protocol', message }];
}
