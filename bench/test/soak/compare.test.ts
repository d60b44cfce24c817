import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compare } from '../../src/soak/compare.ts';
import { evaluateGrowth } from '../../src/soak/report.ts';
import type { Sample } from '../../src/soak/sample.ts';

/** Creates a sample in which every metric equals `value`. */
function createSample(seconds: number, value: number): Sample {
  const table = { heapMiB: value, indexesMiB: value, live: 1000, dead: 1000 * value };
  return {
    seconds,
    claimMs: value,
    accepted: value,
    ingestP95: value,
    searchP95: { fulltext: value, similar: value, hybrid: value },
    rssMiB: value,
    heapMiB: value,
    descriptors: value,
    temporaryFiles: value,
    tables: {
      raw_data: table,
      property_listings: table,
      listing_payloads: table,
      listing_snapshots: table,
      listing_enrichments: table,
      listing_images: table,
      images: table,
      duplicate_marks: table,
      duplicate_pairs: table,
      rate_limits: table,
    },
  };
}

const listRatios = (samples: Sample[], seconds: number) =>
  new Set(compare(samples, seconds).map(({ ratio }) => ratio));

test('the last five minutes are compared with the first', () => {
  const samples = Array.from({ length: 60 }, (_, minute) => {
    const isEnd = minute >= 55;
    return createSample(60 * minute + 30, minute < 5 ? 10 : isEnd ? 15 : 1000);
  });
  assert.deepEqual(listRatios(samples, 3600), new Set([1.5]));
});

test('the last sixth of a short run, or at least its last sample, is compared with the first sixth', () => {
  const samples = [1, 2, 3, 4, 5, 6].map((second) => createSample(second, second));
  assert.deepEqual(listRatios(samples, 6), new Set([6]));
  assert.deepEqual(listRatios([createSample(5, 3), createSample(5.4, 6)], 6), new Set([2]));
});

/** Evaluates the dead-row goal of a table for one sample per minute over half an hour. */
function evaluateDeadRows(rowsAt: (minute: number) => { live: number; dead: number }) {
  const samples = Array.from({ length: 30 }, (_, minute) => {
    const sample = createSample(60 * minute + 30, 1);
    const raw = { ...sample.tables.raw_data, ...rowsAt(minute) };
    return { ...sample, tables: { ...sample.tables, raw_data: raw } };
  });
  const comparisons = compare(samples, 1800).filter(({ name }) => name === 'raw_data: dead rows');
  const [goal, ...surplusGoals] = evaluateGrowth(comparisons);
  assert.ok(goal !== undefined && surplusGoals.length === 0);
  return goal;
}

test('dead rows that are vacuumed repeatedly do not count as growth', () => {
  const sawtooth = evaluateDeadRows((minute) => ({ live: 4000, dead: 100 + 4300 * (minute % 3) }));
  assert.deepEqual([sawtooth.measured, sawtooth.isMet], ['1.00', true]);
  const slowSawtooth = evaluateDeadRows((minute) => ({ live: 4000, dead: 25 * (minute + 2) }));
  assert.ok(slowSawtooth.isMet, 'autovacuum starts only when a fifth of the rows are dead');
  const larger = evaluateDeadRows((minute) => ({
    live: 1000 * (minute + 1),
    dead: 500 * (minute + 1),
  }));
  assert.ok(larger.isMet, 'a larger table may have more dead rows');
  const queue = evaluateDeadRows((minute) => ({ live: minute < 5 ? 200 : 2, dead: 3000 }));
  assert.ok(queue.isMet, 'a small table may have a few dead rows more');
});

test('dead rows that are not vacuumed count as growth, whatever their initial share is', () => {
  const unvacuumedGoal = evaluateDeadRows((minute) => ({
    live: 4000,
    dead: 13_000 + 7200 * minute,
  }));
  assert.ok(!unvacuumedGoal.isMet);
  const growthFromMany = evaluateDeadRows((minute) => ({ live: 24, dead: minute < 25 ? 76 : 760 }));
  assert.ok(!growthFromMany.isMet);
  const risingSawtooth = evaluateDeadRows((minute) => ({
    live: 4000,
    dead: 1000 * (minute % 3) * (1 + minute / 10),
  }));
  assert.ok(!risingSawtooth.isMet);
  const growthFromFew = evaluateDeadRows((minute) => ({ live: 4000, dead: 70 * minute }));
  assert.ok(!growthFromFew.isMet);
});

/** Evaluates hourly growth for samples that grow at a fixed rate for 50 minutes and then drop to the initial value. */
function evaluateHourlyGrowth(perMinute: number) {
  const samples = Array.from({ length: 61 }, (_, minute) =>
    createSample(60 * minute, minute > 50 ? 60 : 60 + perMinute * minute),
  );
  return evaluateGrowth(compare(samples, 3600)).filter(({ goal }) => goal.includes('in an hour'));
}

test('claims and memory may grow slightly in an hour, whatever the ratio of both ends is', () => {
  const goals = evaluateHourlyGrowth(0.02);
  assert.deepEqual(
    goals.map(({ goal }) => goal),
    [
      'claim: in an hour at most 10 % more',
      'heap after collection: in an hour at most 10 % more',
      'memory of the process: in an hour at most 10 % more',
    ],
  );
  assert.ok(goals.every(({ isMet }) => isMet));
  assert.ok(evaluateHourlyGrowth(2).every(({ isMet }) => !isMet));
});

test('memory that grows in a single step misses the ratio goal, but not the slope goal', () => {
  const samples = Array.from({ length: 60 }, (_, minute) =>
    createSample(60 * minute + 30, minute < 54 ? 100 : 112),
  );
  const missedGoals = evaluateGrowth(compare(samples, 3600)).filter(({ isMet }) => !isMet);
  assert.deepEqual(
    missedGoals.map(({ goal }) => goal),
    [
      'heap after collection: at the end at most 1.10 × the beginning',
      'memory of the process: at the end at most 1.10 × the beginning',
      'temporary files: at the end at most 1.00 × the beginning',
    ],
  );
});

test('temporary files are compared by their minimum, which excludes files in progress', () => {
  const rows = [createSample(1, 0), createSample(2, 9), createSample(59, 3), createSample(60, 2)];
  const files = compare(rows, 60).find(({ name }) => name === 'temporary files');
  assert.deepEqual([files?.first, files?.last], [0, 2]);
  assert.ok(evaluateGrowth(files === undefined ? [] : [files]).every(({ isMet }) => !isMet));
});

test('a comparison includes the slope over all samples', () => {
  const samples = Array.from({ length: 60 }, (_, minute) => createSample(60 * minute, 10 + minute));
  for (const { hourlySlope, name } of compare(samples, 3600)) {
    assert.equal(hourlySlope.toFixed(6), '60.000000', name);
  }
  // A rise and fall between the two ends cancel out in the slope.
  const hill = Array.from({ length: 61 }, (_, minute) =>
    createSample(60 * minute, minute * (60 - minute)),
  );
  for (const { hourlySlope } of compare(hill, 3600))
    assert.equal(hourlySlope.toFixed(6), '0.000000');
});

test('zero that stays zero does not count as growth, and any growth from zero does', () => {
  assert.deepEqual(listRatios([createSample(1, 0), createSample(60, 0)], 60), new Set([1]));
  // A share of dead rows below a fifth counts as a fifth.
  assert.deepEqual(
    listRatios([createSample(1, 0), createSample(60, 1)], 60),
    new Set([Infinity, 5]),
  );
});

test('metrics that grow too much miss their goals, except tables that grow by design', () => {
  const goals = evaluateGrowth(compare([createSample(1, 10), createSample(60, 30)], 60));
  assert.ok(goals.length > 0 && goals.every(({ isMet }) => !isMet));
  assert.ok(goals.every(({ goal }) => !/^(listing_snapshots|images): (table|index)/.test(goal)));
  assert.ok(goals.some(({ goal }) => goal.startsWith('listing_images: table')));
  const steady = evaluateGrowth(compare([createSample(1, 10), createSample(60, 10)], 60));
  assert.ok(steady.every(({ isMet, measured }) => isMet && /^1\.00$|^0\.0 %$/.test(measured)));
});
