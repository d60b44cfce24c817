import assert from 'node:assert/strict';
import { test } from 'node:test';
import { judge } from '../../src/search/goals.ts';
import { formatReport } from '../../src/search/report.ts';
import type { Findings, Sample } from '../../src/search/report.ts';

function sampleOf(kind: Sample['kind'], listings: number, round: number, p95: number): Sample {
  const all = { p50: p95 / 2, p95, max: p95 * 2, searches: 100 };
  return {
    kind,
    listings,
    round,
    clients: 8,
    searches: 100,
    seconds: 2,
    cpuMs: 300,
    all,
    groups: { 'filter none': all },
  };
}

function findingsOf(
  listings: number,
  p95: number,
  recall = 1,
  failures: string[] = [],
  recallAfter = 1,
): Findings {
  const samples = ([1, 2, 3] as const).flatMap((round) =>
    (['fulltext', 'similar', 'hybrid'] as const).map((kind) =>
      sampleOf(kind, listings, round, p95),
    ),
  );
  return {
    listings,
    samples,
    alone: samples.map((sample) => ({ ...sample, clients: 1 })),
    recalls: [{ filter: '1 %', share: 0.01, questions: 10, recall }],
    churned: (['changed', 'vacuumed'] as const).map((state) => ({
      state,
      deadRows: 12,
      indexBytes: 5 * 2 ** 20,
      recalls: [{ filter: '1 %', share: 0.01, questions: 10, recall: recallAfter }],
    })),
    equality: { belowBound: 5, atBound: 3, failures },
  };
}

const unmet = (findings: Findings[]) =>
  judge(findings)
    .filter(({ met }) => !met)
    .map(({ goal }) => goal);

test('what is fast, grows little and is right meets every goal', () => {
  assert.deepEqual(unmet([findingsOf(100, 20), findingsOf(1000, 40)]), []);
});

test('each goal is judged by itself', () => {
  assert.deepEqual(unmet([findingsOf(100, 40), findingsOf(1000, 51)]).length, 3);
  assert.match(unmet([findingsOf(100, 10), findingsOf(1000, 21)])[0] ?? '', /at most 2 × the p95/);
  assert.match(unmet([findingsOf(100, 10, 0.94)])[0] ?? '', /recall@10 .* filter 1 %, 100/);
  assert.deepEqual(unmet([findingsOf(100, 10, 1, [], 0.94)]), [
    'recall@10 at least 0.95 once many have changed, filter 1 %, 100 listings',
    'recall@10 at least 0.95 once these are vacuumed, filter 1 %, 100 listings',
  ]);
  assert.match(unmet([findingsOf(100, 10, 1, ['wrong'])])[0] ?? '', /the bound changes no ranking/);
});

test('the report has every group, size and goal', () => {
  const findings = [findingsOf(100, 20), findingsOf(1000, 60)];
  const options = { rounds: 3, seconds: 2, connections: 1, smoke: false, out: undefined };
  const text = formatReport({ options, findings, goals: judge(findings), clients: 8 });
  assert.match(text, /\| hybrid +\| +1,000 \| +30\.0 \(30\.0–30\.0\) \| +60\.0/);
  assert.match(text, /\| filter none \| +10\.0 \/ 20\.0 \| +30\.0 \/ 60\.0 \|/);
  assert.match(text, /\| 1,000 +\| +vacuumed \| +12 \| +5 \| +1\.000 \|/);
  assert.match(text, /fulltext: p95 at most 50 ms of 1,000 listings .* not met/);
});
