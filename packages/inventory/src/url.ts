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

/** The usual name of a protocol, in lower case. */
export function protocolName(name: string): string {
  const lower = name.trim().toLowerCase();
  return ALIASES.get(lower) ?? lower;
}

/** Whether addresses are known to begin with a protocol, given by its usual name. */
export function isScheme(protocol: string): boolean {
  return PORTS.has(protocol);
}

/** The protocol of an address, by its usual name. */
export function schemeOf({ protocol }: URL): string {
  return protocolName(protocol.slice(0, -1));
}

/** The port that an address names or means; undefined where nobody knows. */
export function portOf(url: URL): number | undefined {
  return url.port === '' ? PORTS.get(schemeOf(url)) : Number(url.port);
}
