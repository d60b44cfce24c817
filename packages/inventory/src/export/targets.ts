import type { EndpointRecord } from '../record.ts';
import { credentialIn, maskRecord, withoutCredentials } from '../credentials.ts';
import { transportOf } from '../url.ts';
import { type Endpoint, endpointOf } from '../endpoint.ts';

/** One entry of Prometheus' file-based service discovery. */
export type TargetGroup = {
  targets: string[];
  labels: Record<string, string>;
};

/** What an export makes of records: its lines or entries, and how many records had nothing for it, or more. */
export type Exported<T> = {
  entries: T[];
  leftOut: number;
  /** How many of the records have credentials in their address, which are not exported. */
  withCredentials: number;
};

/** What Prometheus allows as the name of a label, and so of a parameter. */
const LABEL = /^[a-z_]\w*$/i;

/**
 * Endpoints to be scraped: Prometheus asks `host:port` with the scheme, the path and the parameters of the URL.
 * It has one value for each parameter, so addresses with more are left out, as is what speaks another protocol.
 * https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config
 */
export function prometheusTargets(records: readonly EndpointRecord[]): Exported<TargetGroup> {
  return collect(records, (record, { host, port, protocol, url: whole }) => {
    const url = whole === null ? null : URL.parse(withoutCredentials(record.url ?? ''));
    const scheme = schemeToScrape(protocol);
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
  });
}

/**
 * By what an endpoint of a protocol is scraped; empty for Prometheus' own choice, where nothing is said or a word that
 * may well mean HTTP, such as `metrics`; null for what is known not to be HTTP.
 */
function schemeToScrape(protocol: string): 'http' | 'https' | '' | null {
  if (protocol === 'http') return 'http';
  if (protocol === 'https' || protocol === 'tls' || protocol === 'ssl') return 'https';
  return protocol === 'tcp' || transportOf(protocol) === undefined ? '' : null;
}

/**
 * Endpoints to be probed from outside by the blackbox exporter, each with the module of its example
 * configuration that fits: HTTP where the address is one of the web, else whether a connection opens. What takes
 * datagrams is left out, as nobody can connect to it.
 */
export function blackboxTargets(records: readonly EndpointRecord[]): Exported<TargetGroup> {
  return collect(records, (record, { host, port, protocol, url }) => {
    if (transportOf(protocol) === 'udp') return null;
    const isPage = url !== null && isWeb(protocol);
    // Credentials in an address would be shown on every page of Prometheus.
    const address = isPage ? withoutCredentials(record.url ?? '') : `${host}:${port}`;
    return {
      targets: [address],
      labels: { ...labelsOf(record), __param_module: isPage ? 'http_2xx' : 'tcp_connect' },
    };
  });
}

function isWeb(protocol: string): boolean {
  return protocol === 'http' || protocol === 'https';
}

function collect(
  records: readonly EndpointRecord[],
  toGroup: (record: EndpointRecord, endpoint: Endpoint) => TargetGroup | null,
): Exported<TargetGroup> {
  const entries: TargetGroup[] = [];
  let withCredentials = 0;
  for (const record of records) {
    const endpoint = endpointOf(record);
    const group = endpoint === null ? null : toGroup(record, endpoint);
    if (group === null) continue;
    entries.push(group);
    if (credentialIn(record.url ?? '') !== null) withCredentials += 1;
  }
  return { entries, leftOut: records.length - entries.length, withCredentials };
}

function labelsOf(record: EndpointRecord): Record<string, string> {
  const { id, name, type, status, exposure, owner_host: owner, service } = maskRecord(record);
  const labels = { endpoint: id, endpoint_name: name, type, status, exposure, owner, service };
  return Object.fromEntries(
    Object.entries(labels).flatMap(([label, text]) => (text === undefined ? [] : [[label, text]])),
  );
}
