// Prints the metrics of an app for promtool: node scripts/ops/metrics.ts collector

import * as assistant from '@oselya/assistant';
import * as collector from '@oselya/collector';

const apps = new Map([
  ['assistant', assistant.metrics],
  ['collector', collector.metrics],
]);
const name = process.argv[2] ?? '';
const metrics = apps.get(name);
if (metrics === undefined) throw new Error(`Name one of: ${[...apps.keys()].join(', ')}`);
process.stdout.write(await metrics());
