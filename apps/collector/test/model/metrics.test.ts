import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { registerModelMetrics } from '../../src/model.ts';
import { fakeBreaker } from '../support/pipeline.ts';

test('a breaker that may be tried and that nobody asks is no outage', async () => {
  const registry = new Registry();
  const breaker = fakeBreaker();
  registerModelMetrics(registry, { breaker });
  const shown = async () =>
    /^collector_model_breaker_open (\d)$/m.exec(await registry.metrics())?.[1];
  assert.equal(await shown(), '0');
  breaker.set('open');
  assert.equal(await shown(), '1');
  breaker.set('half-open');
  assert.equal(await shown(), '0');
  breaker.probe(true);
  assert.equal(await shown(), '1', 'a server that does not answer the probe is away');
  breaker.set('closed');
  assert.equal(await shown(), '0');
});
