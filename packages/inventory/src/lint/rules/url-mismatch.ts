import { portOf, protocolName, schemeOf } from '../../url.ts';
import type { Found, Fields } from '../rule.ts';
import { simpleRule } from '../rule.ts';

/** Protocols below that of an address, which say nothing against it. */
const TRANSPORTS = new Set(['tcp', 'udp', 'tls', 'quic']);

/** Finds addresses that say something else than the host, the domain, the port or the protocol beside them. */
export const urlMismatch = simpleRule('lint/url-mismatch', 'error', (fields) => {
  const { url } = fields;
  if (url === undefined || url.trim() === '') return [];
  const address = URL.parse(url);
  // "host:port" reads as an address with the scheme "host".
  if (address === null || (address.hostname === '' && !url.includes('://'))) {
    const message = `${JSON.stringify(url)} is no address; write it as in https://example.org/path`;
    return [{ key: 'url', message }];
  }
  return [
    ...hostProblems(address, fields),
    ...portProblems(address, fields),
    ...protocolProblems(address, fields),
  ];
});

function hostProblems({ hostname }: URL, { host, domain }: Fields): Found[] {
  const named = [host, domain].filter((name) => name !== undefined && name.trim() !== '');
  if (hostname === '' || named.length === 0) return [];
  const wanted = plainHost(hostname);
  if (named.some((name) => plainHost(name ?? '') === wanted)) return [];
  const fields = [
    host === undefined ? '' : `host is ${host}`,
    domain === undefined ? '' : `domain is ${domain}`,
  ];
  const others = fields.filter(Boolean).join(' and ');
  return [
    { key: 'url', message: `url leads to ${hostname}, but ${others}; correct the wrong one` },
  ];
}

function portProblems(address: URL, { port }: Fields): Found[] {
  const meant = portOf(address);
  if (port === undefined || meant === undefined || port === meant) return [];
  const how = address.port === '' ? `means port ${meant}, as it names none` : `names port ${meant}`;
  return [{ key: 'port', message: `port is ${port}, but url ${how}; correct the wrong one` }];
}

function protocolProblems(address: URL, { protocol }: Fields): Found[] {
  const scheme = schemeOf(address);
  const declared = protocolName(protocol ?? '');
  if (declared === '' || declared === scheme || TRANSPORTS.has(declared)) return [];
  const message = `protocol is ${protocol}, but url begins with ${scheme}; correct the wrong one`;
  return [{ key: 'protocol', message }];
}

/** A host as URLs write it: in lower case, international names in ASCII, IPv6 in brackets. */
function plainHost(host: string): string {
  const name = host.trim().replace(/\.$/, '');
  const bracketed = name.includes(':') && !name.startsWith('[') ? `[${name}]` : name;
  return URL.parse(`http://${bracketed}`)?.hostname ?? name.toLowerCase();
}
