import assert from 'node:assert/strict';
import { test } from 'node:test';
import { judgeSpeed, findCountMismatches } from '../../src/ingest/ingest.ts';
import { formatReport } from '../../src/ingest/report.ts';
import {
  collector,
  graphileWorker,
  pgBoss,
  type Sample,
  type Variant,
} from '../../src/ingest/variants.ts';

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
  assert.deepEqual(findCountMismatches('collector', sampleOf({})), []);
  assert.deepEqual(
    findCountMismatches('collector', sampleOf({ accepted: 998, others: { 503: 2 } })),
    ['collector: sent 1000, accepted 998, stored 1000; other answers: {"503":2}'],
  );
  assert.equal(
    findCountMismatches('collector', sampleOf({ stored: 999 })).length,
    1,
    'one is lost',
  );
  assert.equal(
    findCountMismatches('collector', sampleOf({ stored: 1001 })).length,
    1,
    'one is there twice',
  );
  const nothing = sampleOf({ sent: 0, accepted: 0, stored: 0 });
  assert.equal(findCountMismatches('collector', nothing).length, 1, 'nothing was measured');
});

test('ratios are of rates within a round; what was not measured stays empty', () => {
  const slow = { seconds: 2 };
  const text = formatReport({
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

test('a peer that is not here leaves a goal that is not met', () => {
  const pgbench: Variant = {
    name: 'pgbench',
    measure: () => Promise.reject(new Error('not called')),
  };
  const measured = [collector, graphileWorker, pgBoss].map(
    ({ name }, nth) => [name, [sampleOf({ accepted: nth === 0 ? 3000 : 1000 })]] as const,
  );
  const without = judgeSpeed(new Map(measured), undefined);
  assert.deepEqual(
    without.map(({ goal, met }) => [goal, met]),
    [
      ['collector: at least 1.0 × pgbench', false],
      ['collector: at least 2.0 × Fastify and graphile-worker', true],
      ['collector: at least 2.0 × Fastify and pg-boss', true],
    ],
  );
  assert.equal(without[0]?.measured, 'not measured: pgbench is not here');
  const withIt = judgeSpeed(new Map([...measured, [pgbench.name, [sampleOf({})]]]), pgbench);
  assert.deepEqual(withIt[0], {
    goal: 'collector: at least 1.0 × pgbench',
    measured: '3.00 (3.00–3.00)',
    met: true,
  });
});
