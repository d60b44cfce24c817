import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

const DASHBOARDS_FOLDER = join(import.meta.dirname, '../../ops/grafana');

/** Fields of Grafana's dashboard model that the tests check. */
export type Dashboard = {
  uid: string;
  title: string;
  schemaVersion: number;
  templating: { list: { name: string; type: string }[] };
  panels: Panel[];
};

export type Panel = {
  id: number;
  type: string;
  title: string;
  description?: string;
  gridPos: { h: number; w: number; x: number; y: number };
  datasource?: { type: string; uid: string };
  targets?: { refId: string; expr: string }[];
};

export const DASHBOARDS = ['assistant', 'collector'] as const;

/** Reads one of the dashboards in ops/grafana. */
export async function readDashboard(name: (typeof DASHBOARDS)[number]): Promise<Dashboard> {
  return JSON.parse(await readFile(join(DASHBOARDS_FOLDER, `${name}.json`), 'utf8')) as Dashboard;
}

/** Lists the expressions of a dashboard, with an interval in place of Grafana's variable. */
export function listExpressions({ panels }: Dashboard): string[] {
  return panels
    .flatMap(({ targets = [] }) => targets)
    .map(({ expr }) => expr.replaceAll('$__rate_interval', '5m'));
}
