// Prints the expressions of the dashboards as recording rules for promtool.

import { DASHBOARDS, listExpressions, readDashboard } from './dashboards.ts';

const boards = await Promise.all(DASHBOARDS.map(readDashboard));
const rules = boards
  .flatMap(listExpressions)
  .map((expr, index) => ({ record: `dashboard:${index}`, expr }));
// promtool reads YAML, and JSON is valid YAML.
process.stdout.write(`${JSON.stringify({ groups: [{ name: 'dashboards', rules }] }, null, 2)}\n`);
