import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import * as assistant from '@oselya/assistant';
import * as collector from '@oselya/collector';
import { DASHBOARDS, listExpressions, type Panel, readDashboard } from '../ops/dashboards.ts';

const ROOT = join(import.meta.dirname, '../..');
const readText = (path: string) => readFile(join(ROOT, path), 'utf8');
const alerts = await readText('ops/prometheus/alerts.yml');
const boards = await Promise.all(DASHBOARDS.map(readDashboard));

/** Lists the series that a page of metrics declares. */
function listSeries(page: string): string[] {
  return [...page.matchAll(/^# TYPE (\w+) (\w+)$/gm)].flatMap(([, name = '', type]) =>
    type === 'histogram' ? ['_bucket', '_sum', '_count'].map((end) => name + end) : [name],
  );
}

/** Lists the metrics in an expression. */
function listMetrics(expression: string): string[] {
  return expression.match(/\b(?:assistant|collector|http|process|nodejs)_\w+/g) ?? [];
}

test('dashboards and alerts use metrics that exist', async () => {
  const knownMetrics = new Set([
    ...listSeries(await assistant.metrics()),
    ...listSeries(await collector.metrics()),
  ]);
  const expressions = [...alerts.split('\n'), ...boards.flatMap(listExpressions)];
  const namedMetrics = new Set(expressions.flatMap(listMetrics));
  assert.ok(namedMetrics.size > 25, `${namedMetrics.size} metrics are named`);
  assert.deepEqual(
    [...namedMetrics].filter((name) => !knownMetrics.has(name)),
    [],
  );
});

test('the dashboards show every metric of the platform', async () => {
  const shownMetrics = new Set(boards.flatMap(listExpressions).flatMap(listMetrics));
  const pages = [await assistant.metrics(), await collector.metrics()];
  const ownMetrics = pages
    .flatMap((page) => [...page.matchAll(/^# TYPE ((?:assistant|collector)_\w+) /gm)])
    .map(([, name = '']) => name);
  // Only alerts use these metrics, so no dashboard shows them.
  const undisplayedMetrics = new Set([
    'collector_worker_last_claim_timestamp_seconds',
    'collector_disk_min_free_bytes',
  ]);
  assert.deepEqual(
    ownMetrics.filter((name) => ![...shownMetrics].some((series) => series.startsWith(name))),
    ownMetrics.filter((name) => undisplayedMetrics.has(name)),
  );
});

test('each target of Prometheus listens on an installation as install.md describes it', async () => {
  const targets = (await readText('ops/prometheus/prometheus.yml')).matchAll(
    /targets: \['(.+?)'\]/g,
  );
  const { ASSISTANT_PORT } = assistant.readConfig({
    SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32).toString('base64url'),
  });
  const { COLLECTOR_PORT } = collector.readConfig({});
  const workerPort = /^COLLECTOR_WORKER_PORT=(\d+)$/m.exec(await readText('docs/install.md'))?.[1];
  assert.deepEqual(
    [...targets].map(([, target]) => target),
    [ASSISTANT_PORT, COLLECTOR_PORT, workerPort].map((port) => `127.0.0.1:${port}`),
  );
});

test('each alert has a section in the page of operations', async () => {
  const page = await readText('docs/operations.md');
  const names = [...alerts.matchAll(/- alert: (\w+)/g)].map(([, name = '']) => name);
  assert.ok(names.length > 8);
  for (const name of names) {
    assert.ok(alerts.includes(`runbook: docs/operations.md#${name.toLowerCase()}\n`), name);
    assert.match(page, new RegExp(`^#+ ${name}$`, 'm'), name);
  }
  const documentedAlerts = [...page.matchAll(/^### ((?:Oselya|Collector|Assistant)\w+)$/gm)];
  assert.deepEqual(
    documentedAlerts.map(([, name]) => name),
    names,
    'the order of the sections',
  );
});

test('each alert is tested', async () => {
  const tests = await readText('ops/prometheus/alerts.test.yml');
  for (const [, name = ''] of alerts.matchAll(/- alert: (\w+)/g)) {
    const alertTests = tests.split(`alertname: ${name}\n`).slice(1);
    assert.ok(
      alertTests.some((alertTest) => /^ +eval_time: \w+\n +exp_alerts:/.test(alertTest)),
      `${name} fires`,
    );
  }
});

test('the migrations whose locks the page of operations describes exist', async () => {
  const page = await readText('docs/operations.md');
  const [section = ''] = page.split('### Locks during an update\n')[1]?.split('\n## ') ?? [];
  const listedMigrations = [...section.matchAll(/^\| `(\d{4}_\w+)`/gm)].map(
    ([, name = '']) => name,
  );
  const files = await readdir(join(ROOT, 'apps/collector/migrations'));
  assert.ok(listedMigrations.length > 5);
  assert.deepEqual(
    listedMigrations.filter((name) => !files.some((file) => file.startsWith(`${name}.`))),
    [],
  );
});

test('the dashboards have the form that Grafana loads', () => {
  assert.equal(new Set(boards.map(({ uid }) => uid)).size, boards.length);
  for (const { title, schemaVersion, templating, panels } of boards) {
    assert.ok(schemaVersion >= 39, title);
    assert.deepEqual(
      templating.list.map(({ name, type }) => [name, type]),
      [['datasource', 'datasource']],
    );
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length, title);
    for (const panel of panels) {
      const { x, w } = panel.gridPos;
      assert.ok(x >= 0 && x + w <= 24, `${panel.title} is within the page`);
      assert.ok(panel.type === 'row' || panel.description, `${panel.title} says what it shows`);
      assert.ok(panel.type === 'row' || panel.datasource?.uid === '${datasource}', panel.title);
      const refs = panel.targets?.map(({ refId }) => refId) ?? [];
      assert.equal(new Set(refs).size, refs.length, panel.title);
    }
    for (const [index, panel] of panels.entries()) {
      for (const otherPanel of panels.slice(index + 1)) {
        assert.ok(
          !doPanelsOverlap(panel, otherPanel),
          `${title}: ${panel.title} and ${otherPanel.title}`,
        );
      }
    }
  }
});

function doPanelsOverlap({ gridPos: a }: Panel, { gridPos: b }: Panel): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}
