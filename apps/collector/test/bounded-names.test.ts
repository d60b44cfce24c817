import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { boundedNames } from '../src/bounded-names.ts';
import { countRequest } from '../src/ingest/count-request.ts';
import { createMetrics } from '../src/metrics.ts';

test('the first names that are taken stand for themselves, and all others for one', () => {
  const names = boundedNames(2);
  assert.equal(names.find('a'), 'other');
  const taken = ['a', 'b', 'c', 'a', 'd', 'b'].map((name) => names.take(name));
  assert.deepEqual(taken, ['a', 'b', 'other', 'a', 'other', 'b']);
  assert.deepEqual([names.find('b'), names.find('c')], ['b', 'other']);
});

test('made up sources make no more than a thousand series, and every request is counted', async () => {
  const registry = new Registry();
  const metrics = createMetrics(registry);
  const sent = 5000;
  for (let nth = 0; nth < sent; nth += 1) {
    for (const statusCode of [429, 409, 503]) {
      countRequest(metrics, { statusCode }, `turned-away-${nth}`);
    }
    countRequest(metrics, { statusCode: 202 }, `made-up-${nth}`);
    countRequest(metrics, { statusCode: 422 }, `refused-${nth}`);
  }
  countRequest(metrics, { statusCode: 429 }, 'made-up-0');
  const found = await registry.getSingleMetric('collector_ingest_requests_total')?.get();
  const values = found?.values ?? [];
  const valuesOf = (source: string) =>
    Object.fromEntries(
      values
        .filter(({ labels }) => labels['source'] === source)
        .map(({ labels, value }) => [labels['outcome'], value]),
    );
  assert.deepEqual(valuesOf('made-up-0'), { accepted: 1, rate_limited: 1 });
  assert.deepEqual(valuesOf('other'), {
    accepted: sent - 1000,
    rate_limited: sent,
    conflict: sent,
    failed: sent,
  });
  assert.deepEqual(valuesOf('unknown'), { refused: sent });
  assert.equal(values.length, 1000 + 1 + 4 + 1);
});
