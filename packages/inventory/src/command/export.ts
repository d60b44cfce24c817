import {
  toAsciiHost,
  type Endpoint,
  parseEndpoint,
  isIpAddress,
  getTransport,
  removeBrackets,
} from '../address.ts';
import { detectCredential, maskRecord, removeCredentials } from '../credentials.ts';
import type { EndpointRecord } from '../record.ts';
import { formatCount, formatJsonList } from '../text.ts';
import { parseChoice, type Command, parseArguments, UsageError } from './command.ts';
import { resolveSingleFile, SELECT_HELP, SELECT_OPTIONS, selectRecords } from './files.ts';

const TARGETS = ['prometheus', 'blackbox', 'hosts'] as const;

const HELP = `Prints the records of an inventory for monitoring. FILE is as for \`validate\`.

Options:
  --target prometheus|blackbox|hosts
      prometheus   targets to scrape, for file_sd_configs of Prometheus
      blackbox     targets to probe, for file_sd_configs of a job of the blackbox exporter
      hosts        lines of a hosts file: the addresses with their domains
${SELECT_HELP}
  --help                            print this text

Exit status: 0 printed, 2 unreadable, invalid or wrong use.
`;

/** `oselya inventory export` (Contract 5). */
export const exportCommand: Command = {
  help: HELP,
  async run(argv, { io, out, log }) {
    const { values, positionals } = parseArguments('export', argv, {
      target: { type: 'string' },
      ...SELECT_OPTIONS,
    });
    const file = await resolveSingleFile(positionals, 'exported');
    const target = parseChoice('--target', TARGETS, values.target);
    if (target === undefined) throw new UsageError(`give --target ${TARGETS.join('|')}`);
    const records = await selectRecords(file, io, values);
    if (target === 'hosts') {
      const { lines, skipped } = hostsFile(records);
      await out.writeAll(lines);
      if (skipped > 0) {
        log(`${formatCount(skipped, 'record')} skipped: no IP address as host, or no domain`);
      }
      return 0;
    }
    const { groups, withCredentials } = targetGroups(records, target);
    await out.writeAll(formatJsonList(groups));
    await out.write('\n');
    const skipped = records.length - groups.length;
    if (skipped > 0)
      log(`${formatCount(skipped, 'record')} skipped: no suitable address or protocol`);
    if (withCredentials > 0) {
      const addresses = formatCount(withCredentials, 'address', 'addresses');
      log(`${addresses} printed without credentials; configure them where they are used`);
    }
    return 0;
  },
};

/** A name in a hosts file (RFC 952, RFC 1123 §2.1). */
const NAME = /^[a-z\d]([a-z\d-]*[a-z\d])?(\.[a-z\d]([a-z\d-]*[a-z\d])?)*$/i;

/** Returns one line per IP address with its domains, in the order of the records. */
function hostsFile(records: readonly EndpointRecord[]) {
  const names = new Map<string, Set<string>>();
  let skipped = 0;
  for (const { host = '', domain = '' } of records) {
    const address = removeBrackets(host);
    const name = toAsciiHost(domain.trim()).replace(/\.$/, '').toLowerCase();
    if (!isIpAddress(address) || address.includes('%') || !NAME.test(name)) skipped += 1;
    else names.set(address, (names.get(address) ?? new Set()).add(name));
  }
  const lines = names.entries().map(([address, known]) => `${address}\t${[...known].join(' ')}\n`);
  return { lines, skipped };
}

/**
 * An entry for file-based service discovery:
 * https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config
 */
type TargetGroup = { targets: string[]; labels: Record<string, string> };

/** Returns the endpoints that suit a target, and the number of endpoints whose URL had credentials. */
function targetGroups(records: readonly EndpointRecord[], target: 'prometheus' | 'blackbox') {
  const toGroup = target === 'prometheus' ? scrapeTarget : blackboxTarget;
  let withCredentials = 0;
  const groups: TargetGroup[] = [];
  for (const record of records) {
    const endpoint = parseEndpoint(record);
    const group = endpoint && toGroup(record, endpoint);
    if (group === null) continue;
    groups.push(group);
    if (detectCredential(record.url ?? '') !== null) withCredentials += 1;
  }
  return { groups, withCredentials };
}

/** Names of URL parameters that can become labels. */
const LABEL = /^[a-z_]\w*$/i;

/** Returns the scrape target of an endpoint. Prometheus supports each URL parameter only once. */
function scrapeTarget(record: EndpointRecord, endpoint: Endpoint): TargetGroup | null {
  const { host, port, protocol } = endpoint;
  const url = endpoint.url === null ? null : URL.parse(removeCredentials(record.url ?? ''));
  const scheme = scrapeScheme(protocol);
  if (scheme === null || (url !== null && !isWeb(protocol))) return null;
  const parameters = [...(url?.searchParams ?? [])];
  const names = new Set(parameters.map(([name]) => name));
  if (names.size < parameters.length || [...names].some((name) => !LABEL.test(name))) return null;
  return {
    targets: [`${host}:${port}`],
    labels: {
      ...labelsOf(record),
      ...(scheme !== '' && { __scheme__: scheme }),
      ...(url !== null && url.pathname !== '/' && { __metrics_path__: url.pathname }),
      ...Object.fromEntries(parameters.map(([name, value]) => [`__param_${name}`, value])),
    },
  };
}

/** Returns the scheme of a protocol: empty for names that may mean HTTP, such as `metrics`, null for other protocols. */
function scrapeScheme(protocol: string): 'http' | 'https' | '' | null {
  if (protocol === 'http') return 'http';
  if (protocol === 'https' || protocol === 'tls' || protocol === 'ssl') return 'https';
  return protocol === 'tcp' || getTransport(protocol) === undefined ? '' : null;
}

/** Returns the blackbox target of an endpoint: a URL for HTTP, otherwise `host:port` for a TCP connection. */
function blackboxTarget(record: EndpointRecord, { host, port, protocol, url }: Endpoint) {
  if (getTransport(protocol) === 'udp') return null;
  const isPage = url !== null && isWeb(protocol);
  // Prometheus displays targets, so credentials must be removed.
  const address = isPage ? removeCredentials(record.url ?? '') : `${host}:${port}`;
  const module = isPage ? 'http_2xx' : 'tcp_connect';
  return { targets: [address], labels: { ...labelsOf(record), __param_module: module } };
}

function isWeb(protocol: string): boolean {
  return protocol === 'http' || protocol === 'https';
}

function labelsOf(record: EndpointRecord): Record<string, string> {
  const { id, name, type, status, exposure, owner_host: owner, service } = maskRecord(record);
  return {
    endpoint: id,
    endpoint_name: name,
    type,
    status,
    exposure,
    ...(owner !== undefined && { owner }),
    ...(service !== undefined && { service }),
  };
}
