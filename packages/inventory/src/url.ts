/** What carries a protocol: a connection, one with TLS from its beginning on, or datagrams, to which nobody connects. */
type Transport = 'tcp' | 'tls' | 'udp';

/**
 * What is known of protocols by name: the port that an address means when it names none (IANA Service Name and Port
 * Number Registry), null for what addresses do not begin with, and the transport.
 */
const PROTOCOLS: ReadonlyMap<string, { port: number | null; transport: Transport }> = new Map(
  (
    [
      ['http', 80, 'tcp'],
      ['https', 443, 'tls'],
      ['ws', 80, 'tcp'],
      ['wss', 443, 'tls'],
      ['ftp', 21, 'tcp'],
      ['ftps', 990, 'tls'],
      ['ssh', 22, 'tcp'],
      ['sftp', 22, 'tcp'],
      ['telnet', 23, 'tcp'],
      ['smtp', 25, 'tcp'],
      ['smtps', 465, 'tls'],
      ['pop3', 110, 'tcp'],
      ['pop3s', 995, 'tls'],
      ['imap', 143, 'tcp'],
      ['imaps', 993, 'tls'],
      ['ldap', 389, 'tcp'],
      ['ldaps', 636, 'tls'],
      ['rtsp', 554, 'tcp'],
      ['rtsps', 322, 'tls'],
      ['postgresql', 5432, 'tcp'],
      ['mysql', 3306, 'tcp'],
      ['mongodb', 27_017, 'tcp'],
      ['redis', 6379, 'tcp'],
      ['rediss', 6379, 'tls'],
      ['nats', 4222, 'tcp'],
      ['amqp', 5672, 'tcp'],
      ['amqps', 5671, 'tls'],
      ['mqtt', 1883, 'tcp'],
      ['mqtts', 8883, 'tls'],
      ['coap', 5683, 'udp'],
      ['coaps', 5684, 'udp'],
      ['tftp', 69, 'udp'],
      ['tcp', null, 'tcp'],
      ['tls', null, 'tls'],
      ['ssl', null, 'tls'],
      ['udp', null, 'udp'],
      ['dtls', null, 'udp'],
      ['quic', null, 'udp'],
      ['dhcp', null, 'udp'],
      ['mdns', null, 'udp'],
      ['ntp', null, 'udp'],
      ['snmp', null, 'udp'],
      ['wireguard', null, 'udp'],
    ] as const
  ).map(([name, port, transport]) => [name, { port, transport }]),
);

/** Names of one protocol. */
const ALIASES = new Map([
  ['postgres', 'postgresql'],
  ['websocket', 'ws'],
  ['websockets', 'ws'],
  ['mongo', 'mongodb'],
  ['pop', 'pop3'],
  ['http/1.1', 'http'],
  ['h2', 'https'],
  ['http/2', 'https'],
  ['http/3', 'https'],
]);

/** The usual name of a protocol, in lower case. */
export function protocolName(name: string): string {
  const lower = name.trim().toLowerCase();
  return ALIASES.get(lower) ?? lower;
}

/** Whether addresses are known to begin with a protocol, given by its usual name. */
export function isScheme(protocol: string): boolean {
  return typeof PROTOCOLS.get(protocol)?.port === 'number';
}

/** What carries a protocol, given by its usual name; undefined where nobody knows. */
export function transportOf(protocol: string): Transport | undefined {
  return PROTOCOLS.get(protocol)?.transport;
}

/** The protocol of an address, by its usual name. */
export function schemeOf({ protocol }: Pick<URL, 'protocol'>): string {
  return protocolName(protocol.slice(0, -1));
}

/** The port that an address names or means; undefined where nobody knows. */
export function portOf(url: Pick<URL, 'protocol' | 'port'>): number | undefined {
  return url.port === '' ? (PROTOCOLS.get(schemeOf(url))?.port ?? undefined) : Number(url.port);
}
