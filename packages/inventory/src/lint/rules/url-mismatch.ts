import type { Found, Fields } from '../rule.ts';
import { simpleRule } from '../rule.ts';

/** Names of one protocol. */
const ALIASES = new Map([
  ['postgres', 'postgresql'],
  ['websocket', 'ws'],
  ['websockets', 'ws'],
  ['mongo', 'mongodb'],
  ['http/1.1', 'http'],
  ['h2', 'https'],
  ['http/2', 'https'],
  ['http/3', 'https'],
]);

/** Protocols below that of an address, which say nothing against it. */
const TRANSPORTS = new Set(['tcp', 'udp', 'tls', 'quic']);

/** Ports that an address means when it names none (IANA Service Name and Port Number Registry). */
const PORTS = new Map([
  ['http', 80],
  ['https', 443],
  ['ws', 80],
  ['wss', 443],
  ['ftp', 21],
  ['ssh', 22],
  ['sftp', 22],
  ['ldap', 389],
  ['ldaps', 636],
  ['rtsp', 554],
  ['postgresql', 5432],
  ['mysql', 3306],
  ['redis', 6379],
  ['mongodb', 27_017],
  ['amqp', 5672],
  ['amqps', 5671],
  ['mqtt', 1883],
  ['mqtts', 8883],
]);

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
  const meant = address.port === '' ? PORTS.get(schemeOf(address)) : Number(address.port);
  if (port === undefined || meant === undefined || port === meant) return [];
  const how = address.port === '' ? `means port ${meant}, as it names none` : `names port ${meant}`;
  return [{ key: 'port', message: `port is ${port}, but url ${how}; correct the wrong one` }];
}

function protocolProblems(address: URL, { protocol }: Fields): Found[] {
  const scheme = schemeOf(address);
  const declared = plainProtocol(protocol ?? '');
  if (declared === '' || declared === scheme || TRANSPORTS.has(declared)) return [];
  const message = `protocol is ${protocol}, but url begins with ${scheme}; correct the wrong one`;
  return [{ key: 'protocol', message }];
}

function schemeOf({ protocol }: URL): string {
  return plainProtocol(protocol.slice(0, -1));
}

function plainProtocol(name: string): string {
  const lower = name.trim().toLowerCase();
  return ALIASES.get(lower) ?? lower;
}

/** A host as URLs write it: in lower case, international names in ASCII, IPv6 in brackets. */
function plainHost(host: string): string {
  const name = host.trim().replace(/\.$/, '');
  const bracketed = name.includes(':') && !name.startsWith('[') ? `[${name}]` : name;
  return URL.parse(`http://${bracketed}`)?.hostname ?? name.toLowerCase();
}
