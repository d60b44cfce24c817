import {
  asciiHost,
  type Endpoint,
  endpointOf,
  isIpAddress,
  transportOf,
  withoutBrackets,
} from '../address.ts';
import { credentialIn, maskRecord, withoutCredentials } from '../credentials.ts';
import type { EndpointRecord } from '../record.ts';
import { count, jsonList } from '../text.ts';
import { choice, type Command, parseArguments, UsageError } from './command.ts';
import { oneFile, SELECT_HELP, SELECT_OPTIONS, selectRecords } from './files.ts';

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
    const file = await oneFile(positionals, 'exported');
    const target = choice('--target', TARGETS, values.target);
    if (target === undefined) throw new UsageError(`give --target ${TARGETS.join('|')}`);
    const records = await selectRecords(file, io, values);
    if (target === 'hosts') {
      const { lines, skipped } = hostsFile(records);
      await out.writeAll(lines);
      if (skipped > 0) {
        log(`${count(skipped, 'record')} skipped: no IP address as host, or no domain`);
      }
      return 0;
    }
    const { groups, withCredentials } = targetGroups(records, target);
    await out.writeAll(jsonList(groups));
    await out.write('\n');
    const skipped = records.length - groups.length;
    if (skipped > 0) log(`${count(skipped, 'record')} skipped: no suitable address or protocol`);
    if (withCredentials > 0) {
      const addresses = count(withCredentials, 'address', 'addresses');
      log(`${addresses} printed without credentials; configure them where they are used`);
    }
    return 0;
  },
};

/** A name in a hosts file (RFC 952, RFC 1123 §2.1). */
const NAME = /^[a-z\d]([a-z\d-]*[a-z\d])?(\.[a-z\d]([a-z\d-]*[a-z\d])?)*$/i;

/** Returns lines with each address and its domains, in the order of the records. */
function hostsFile(records: readonly EndpointRecord[]) {
  const names = new Map<string, Set<string>>();
  let skipped = 0;
  for (const { host = '', domain = '' } of records) {
    const address = withoutBrackets(host);
    const name = asciiHost(domain.trim()).replace(/\.$/, '').toLowerCase();
    if (!isIpAddress(address) || address.includes('%') || !NAME.test(name)) skipped += 1;
    else names.set(address, (names.get(address) ?? new Set()).add(name));
  }
  const lines = names.entries().map(([address, known]) => `${address}\t${[...known].join(' ')}\n`);
  return { lines, skipped };
}

/**
 * An entry of file-based service discovery:
 * https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config
 */
type TargetGroup = { targets: string[]; labels: Record<string, string> };

/** Returns the endpoints that suit a target; `withCredentials` counts those whose address had some. */
function targetGroups(records: readonly EndpointRecord[], target: 'prometheus' | 'blackbox') {
  const toGroup = target === 'prometheus' ? scrapeTarget : blackboxTarget;
  let withCredentials = 0;
  const groups: TargetGroup[] = [];
  for (const record of records) {
    const endpoint = endpointOf(record);
    const group = endpoint && toGroup(record, endpoint);
    if (group === null) continue;
    groups.push(group);
    if (credentialIn(record.url ?? '') !== null) withCredentials += 1;
  }
  return { groups, withCredentials };
}

/** Parameters become labels of these names. */
const LABEL = /^[a-z_]\w*$/i;

/** Prometheus scrapes `host:port` with the scheme, path and parameters of the URL, each parameter once. */
function scrapeTarget(record: EndpointRecord, endpoint: Endpoint): TargetGroup | null {
  const { host, port, protocol } = endpoint;
  const url = endpoint.url === null ? null : URL.parse(withoutCredentials(record.url ?? ''));
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

/** Returns an empty scheme for words that may mean HTTP, such as `metrics`, and null for other protocols. */
function scrapeScheme(protocol: string): 'http' | 'https' | '' | null {
  if (protocol === 'http') return 'http';
  if (protocol === 'https' || protocol === 'tls' || protocol === 'ssl') return 'https';
  return protocol === 'tcp' || transportOf(protocol) === undefined ? '' : null;
}

/** The blackbox exporter probes web addresses by HTTP, and others by a connection. */
function blackboxTarget(record: EndpointRecord, { host, port, protocol, url }: Endpoint) {
  if (transportOf(protocol) === 'udp') return null;
  const isPage = url !== null && isWeb(protocol);
  // Prometheus shows targets on its pages, so they must not contain credentials.
  const address = isPage ? withoutCredentials(record.url ?? '') : `${host}:${port}`;
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
