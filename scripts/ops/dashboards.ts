import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

const FOLDER = join(import.meta.dirname, '../../ops/grafana');

/** The part of Grafana's dashboard model that the checks use. */
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
  return JSON.parse(await readFile(join(FOLDER, `${name}.json`), 'utf8')) as Dashboard;
}

/** Returns the expressions of a dashboard, with an interval where Grafana inserts one. */
export function listExpressions({ panels }: Dashboard): string[] {
  return panels
    .flatMap(({ targets = [] }) => targets)
    .map(({ expr }) => expr.replaceAll('$__rate_interval', '5m'));
}
