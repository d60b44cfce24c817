import type { EndpointRecord } from '../record.ts';
import { schemeOf } from '../url.ts';
import { type Endpoint, endpointOf } from '../endpoint.ts';

/** One entry of Prometheus' file-based service discovery. */
export type TargetGroup = {
  targets: string[];
  labels: Record<string, string>;
};

/** What an export makes of records: its lines or entries, and how many records had nothing for it. */
export type Exported<T> = {
  entries: T[];
  leftOut: number;
};

/**
 * Endpoints to be scraped: Prometheus asks `host:port` with the scheme and the path of the URL.
 * https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config
 */
export function prometheusTargets(records: readonly EndpointRecord[]): Exported<TargetGroup> {
  return collect(records, (record, { host, port, url }) => {
    const scheme = url === null ? '' : schemeOf(url);
    if (url !== null && !['http', 'https'].includes(scheme)) return null;
    return {
      targets: [`${host}:${port}`],
      labels: {
        ...labelsOf(record),
        ...(url !== null && { __scheme__: scheme }),
        ...(url !== null && url.pathname !== '/' && { __metrics_path__: url.pathname }),
      },
    };
  });
}

/**
 * Endpoints to be probed from outside by the blackbox exporter, each with the module of its example
 * configuration that fits: HTTP where the address is one of the web, else whether a connection opens.
 */
export function blackboxTargets(records: readonly EndpointRecord[]): Exported<TargetGroup> {
  return collect(records, (record, { host, port, url }) => {
    const isWeb = url !== null && ['http', 'https'].includes(schemeOf(url));
    // Credentials in an address would be shown on every page of Prometheus.
    const address = isWeb ? Object.assign(new URL(url), { username: '', password: '' }).href : null;
    return {
      targets: [address ?? `${host}:${port}`],
      labels: { ...labelsOf(record), __param_module: isWeb ? 'http_2xx' : 'tcp_connect' },
    };
  });
}

function collect(
  records: readonly EndpointRecord[],
  toGroup: (record: EndpointRecord, endpoint: Endpoint) => TargetGroup | null,
): Exported<TargetGroup> {
  const groups = records.map((record) => {
    const endpoint = endpointOf(record);
    return endpoint === null ? null : toGroup(record, endpoint);
  });
  const entries = groups.filter((group) => group !== null);
  return { entries, leftOut: groups.length - entries.length };
}

function labelsOf(record: EndpointRecord): Record<string, string> {
  const { id, name, type, status, exposure, owner_host: owner, service } = record;
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
