import {
  type Endpoint,
  getTransport,
  isIpAddress,
  parseEndpoint,
  removeBrackets,
  toAsciiHost,
} from '../address.ts';
import { detectCredential, maskRecord, removeCredentials } from '../credentials.ts';
import type { EndpointRecord } from '../record.ts';
import { formatCount, formatJsonList } from '../text.ts';
import { createChoiceOption, type Command, parseArguments, UsageError } from './command.ts';
import { resolveSingleFile, SELECT_HELP, SELECT_OPTIONS, selectRecords } from './files.ts';

const HELP = `Prints the records of an inventory for monitoring. FILE is as for \`validate\`.

Options:
  --target prometheus|blackbox|hosts
      prometheus   targets to scrape, for file_sd_configs of Prometheus
      blackbox     targets to probe, for file_sd_configs of a job of the blackbox exporter
      hosts        lines of a hosts file: the addresses with their domains
${SELECT_HELP}
  --help                            print this text

Exit status: 0 printed, 2 unreadable or invalid file, or usage error.
`;

/** `oselya inventory export` (Contract 5). */
export const exportCommand: Command = {
  help: HELP,
  async run(argv, { io, out, log }) {
    const { values, positionals } = parseArguments('export', argv, {
      target: createChoiceOption('prometheus', 'blackbox', 'hosts'),
      ...SELECT_OPTIONS,
    });
    const { target } = values;
    const file = await resolveSingleFile(positionals, 'exported');
    if (target === undefined) throw new UsageError('specify --target prometheus|blackbox|hosts');
    const records = await selectRecords(file, io, values);
    const logSkipped = (skippedCount: number, reason: string) => {
      if (skippedCount > 0) log(`${formatCount(skippedCount, 'record')} skipped: ${reason}`);
    };
    if (target === 'hosts') {
      const { lines, skippedCount } = formatHostsFile(records);
      await out.writeAll(lines);
      logSkipped(skippedCount, 'no IP address as host, or no domain');
      return 0;
    }
    const toTargetGroup = target === 'prometheus' ? toScrapeTarget : toBlackboxTarget;
    const groups = records.flatMap((record) => {
      const endpoint = parseEndpoint(record);
      const group = endpoint && toTargetGroup(record, endpoint);
      return group === null ? [] : [{ record, group }];
    });
    await out.writeAll(formatJsonList(groups.map(({ group }) => group)));
    await out.write('\n');
    logSkipped(records.length - groups.length, 'no suitable address or protocol');
    const groupsWithCredentials = groups.filter(
      ({ record }) => detectCredential(record.url ?? '') !== null,
    );
    if (groupsWithCredentials.length > 0) {
      const addresses = formatCount(groupsWithCredentials.length, 'address', 'addresses');
      log(`${addresses} printed without credentials; configure them where they are used`);
    }
    return 0;
  },
};

/** Name in a hosts file (RFC 952, RFC 1123 §2.1). */
const HOST_NAME_PATTERN = /^[a-z\d]([a-z\d-]*[a-z\d])?(\.[a-z\d]([a-z\d-]*[a-z\d])?)*$/i;

/** Formats one line per IP address with its domains, in record order. Counts the skipped records. */
function formatHostsFile(records: readonly EndpointRecord[]) {
  const namesByAddress = new Map<string, Set<string>>();
  let skippedCount = 0;
  for (const { host = '', domain = '' } of records) {
    const address = removeBrackets(host);
    const name = toAsciiHost(domain.trim()).replace(/\.$/, '').toLowerCase();
    if (!isIpAddress(address) || address.includes('%') || !HOST_NAME_PATTERN.test(name))
      skippedCount += 1;
    else namesByAddress.set(address, (namesByAddress.get(address) ?? new Set()).add(name));
  }
  const lines = namesByAddress
    .entries()
    .map(([address, hostNames]) => `${address}\t${[...hostNames].join(' ')}\n`);
  return { lines, skippedCount };
}

/**
 * Entry for file-based service discovery:
 * https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config
 */
type TargetGroup = { targets: string[]; labels: Record<string, string> };

const LABEL_PATTERN = /^[a-z_]\w*$/i;

/** Returns the scrape target of an endpoint, or null if Prometheus cannot scrape it, as with repeated parameters. */
function toScrapeTarget(record: EndpointRecord, endpoint: Endpoint): TargetGroup | null {
  const { host, port, protocol } = endpoint;
  const url = endpoint.url === null ? null : URL.parse(removeCredentials(record.url ?? ''));
  const scheme = getScrapeScheme(protocol);
  if (scheme === null || (url !== null && !isHttpProtocol(protocol))) return null;
  const parameters = [...(url?.searchParams ?? [])];
  const names = new Set(parameters.map(([name]) => name));
  if (names.size < parameters.length || [...names].some((name) => !LABEL_PATTERN.test(name)))
    return null;
  return {
    targets: [`${host}:${port}`],
    labels: {
      ...createLabels(record),
      ...(scheme !== '' && { __scheme__: scheme }),
      ...(url !== null && url.pathname !== '/' && { __metrics_path__: url.pathname }),
      ...Object.fromEntries(parameters.map(([name, value]) => [`__param_${name}`, value])),
    },
  };
}

/**
 * Returns the scheme of a protocol: empty for names that may mean HTTP, such as `metrics`, null for other protocols.
 */
function getScrapeScheme(protocol: string): 'http' | 'https' | '' | null {
  if (protocol === 'http') return 'http';
  if (protocol === 'https' || protocol === 'tls' || protocol === 'ssl') return 'https';
  return protocol === 'tcp' || getTransport(protocol) === undefined ? '' : null;
}

/** Returns the blackbox target: a URL for HTTP, null for UDP, otherwise `host:port` for a TCP connection. */
function toBlackboxTarget(record: EndpointRecord, endpoint: Endpoint): TargetGroup | null {
  const { host, port, protocol, url } = endpoint;
  if (getTransport(protocol) === 'udp') return null;
  const isHttpTarget = url !== null && isHttpProtocol(protocol);
  // Prometheus displays targets, so credentials must be removed.
  const address = isHttpTarget ? removeCredentials(record.url ?? '') : `${host}:${port}`;
  const module = isHttpTarget ? 'http_2xx' : 'tcp_connect';
  return { targets: [address], labels: { ...createLabels(record), __param_module: module } };
}

function isHttpProtocol(protocol: string): boolean {
  return protocol === 'http' || protocol === 'https';
}

function createLabels(record: EndpointRecord): Record<string, string> {
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
