import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { boundedNames } from '../src/bounded-names.ts';
import { countRequest } from '../src/ingest/count-request.ts';
import { createMetrics } from '../src/metrics.ts';

test('the first names stand for themselves, and all others for one', () => {
  const nameOf = boundedNames(2);
  assert.deepEqual(['a', 'b', 'c', 'a', 'd', 'b'].map(nameOf), [
    'a',
    'b',
    'other',
    'a',
    'other',
    'b',
  ]);
});

test('made up sources make no more than a thousand series, and every request is counted', async () => {
  const registry = new Registry();
  const metrics = createMetrics(registry);
  const sent = 5000;
  for (let nth = 0; nth < sent; nth += 1) {
    countRequest(metrics, { statusCode: 202 }, `made-up-${nth}`);
    countRequest(metrics, { statusCode: 422 }, `refused-${nth}`);
  }
  countRequest(metrics, { statusCode: 202 }, 'made-up-0');
  const found = await registry.getSingleMetric('collector_ingest_requests_total')?.get();
  const values = found?.values ?? [];
  assert.equal(values.length, 1002);
  const valueOf = (source: string) =>
    values.find(({ labels }) => labels['source'] === source)?.value;
  assert.equal(valueOf('made-up-0'), 2);
  assert.equal(valueOf('other'), sent - 1000);
  assert.equal(valueOf('unknown'), sent);
});
