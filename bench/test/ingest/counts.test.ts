import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wrongCounts } from '../../src/ingest/ingest.ts';
import { reportText } from '../../src/ingest/report.ts';
import type { Sample } from '../../src/ingest/variants.ts';

const options = { rounds: 2, seconds: 1, connections: 1, smoke: false, out: undefined };

const sampleOf = (values: Partial<Sample>): Sample => ({
  sent: 1000,
  accepted: 1000,
  stored: 1000,
  seconds: 1,
  latency: { p50: 4, p99: 20, max: 30 },
  cpuMs: 100,
  others: {},
  ...values,
});

test('what was sent has to be accepted, and what was accepted to be stored', () => {
  assert.deepEqual(wrongCounts('collector', sampleOf({})), []);
  assert.deepEqual(wrongCounts('collector', sampleOf({ accepted: 998, others: { 503: 2 } })), [
    'collector: sent 1000, accepted 998, stored 1000; other answers: {"503":2}',
  ]);
  assert.equal(wrongCounts('collector', sampleOf({ stored: 999 })).length, 1, 'one is lost');
  assert.equal(
    wrongCounts('collector', sampleOf({ stored: 1001 })).length,
    1,
    'one is there twice',
  );
  const nothing = sampleOf({ sent: 0, accepted: 0, stored: 0 });
  assert.equal(wrongCounts('collector', nothing).length, 1, 'nothing was measured');
});

test('ratios are of rates within a round; what was not measured stays empty', () => {
  const slow = { seconds: 2 };
  const text = reportText({
    options,
    connections: 64,
    goals: [],
    samples: new Map([
      ['collector', [sampleOf({}), sampleOf(slow)]],
      [
        'pgbench, 32 clients',
        [
          sampleOf({ accepted: 2000, latency: undefined, cpuMs: undefined }),
          sampleOf({ accepted: 1000, latency: undefined, cpuMs: undefined, ...slow }),
        ],
      ],
    ]),
  });
  assert.match(
    text,
    /collector +\| +750 \(500–1,000\) \| 1\.00 \(1\.00–1\.00\) \| +4\.0 \| +20\.0 \| +100 \|/,
  );
  assert.match(
    text,
    /pgbench, 32 clients \| 1,250 \(500–2,000\) \| 0\.75 \(0\.50–1\.00\) \| +\| +\| +\|/,
  );
});
