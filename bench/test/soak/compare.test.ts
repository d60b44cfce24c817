import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compare } from '../../src/soak/compare.ts';
import { judgeGrowth } from '../../src/soak/report.ts';
import type { Sample } from '../../src/soak/sample.ts';

/** A sample whose every figure is `value`. */
function sampleAt(seconds: number, value: number): Sample {
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

const ratioOf = (samples: Sample[], seconds: number) =>
  new Set(compare(samples, seconds).map(({ ratio }) => ratio));

test('the last five minutes are compared with the first', () => {
  const samples = Array.from({ length: 60 }, (_, minute) => {
    const isEnd = minute >= 55;
    return sampleAt(60 * minute + 30, minute < 5 ? 10 : isEnd ? 15 : 1000);
  });
  assert.deepEqual(ratioOf(samples, 3600), new Set([1.5]));
});

test('of a short run the last sixth is compared with the first, or what comes nearest', () => {
  const samples = [1, 2, 3, 4, 5, 6].map((second) => sampleAt(second, second));
  assert.deepEqual(ratioOf(samples, 6), new Set([6]));
  assert.deepEqual(ratioOf([sampleAt(5, 3), sampleAt(5.4, 6)], 6), new Set([2]));
});

/** The goal of a table's dead rows where a sample is taken each minute of half an hour. */
function deadRows(rowsAt: (minute: number) => { live: number; dead: number }) {
  const samples = Array.from({ length: 30 }, (_, minute) => {
    const sample = sampleAt(60 * minute + 30, 1);
    const raw = { ...sample.tables.raw_data, ...rowsAt(minute) };
    return { ...sample, tables: { ...sample.tables, raw_data: raw } };
  });
  const compared = compare(samples, 1800).filter(({ name }) => name === 'raw_data: dead rows');
  const [goal, ...others] = judgeGrowth(compared);
  assert.ok(goal !== undefined && others.length === 0);
  return goal;
}

test('dead rows that a vacuum takes again and again are no growth', () => {
  const teeth = deadRows((minute) => ({ live: 4000, dead: 100 + 4300 * (minute % 3) }));
  assert.deepEqual([teeth.measured, teeth.met], ['1.00', true]);
  const slowTooth = deadRows((minute) => ({ live: 4000, dead: 25 * (minute + 2) }));
  assert.ok(slowTooth.met, 'before a fifth is dead no vacuum begins');
  const larger = deadRows((minute) => ({ live: 1000 * (minute + 1), dead: 500 * (minute + 1) }));
  assert.ok(larger.met, 'a larger table has more of them');
  const queue = deadRows((minute) => ({ live: minute < 5 ? 200 : 2, dead: 3000 }));
  assert.ok(queue.met, 'a small table is no larger for a few rows more at a moment');
});

test('dead rows that no vacuum takes are growth, however many of the rows they were before', () => {
  const blocked = deadRows((minute) => ({ live: 4000, dead: 13_000 + 7200 * minute }));
  assert.ok(!blocked.met);
  const fromMost = deadRows((minute) => ({ live: 24, dead: minute < 25 ? 76 : 760 }));
  assert.ok(!fromMost.met);
  const risingTeeth = deadRows((minute) => ({
    live: 4000,
    dead: 1000 * (minute % 3) * (1 + minute / 10),
  }));
  assert.ok(!risingTeeth.met);
  const fromFew = deadRows((minute) => ({ live: 4000, dead: 70 * minute }));
  assert.ok(!fromFew.met);
});

/** Judges growth by the hour, where everything grows at a fixed rate and ends as it began. */
function hourlyGoals(perMinute: number) {
  const samples = Array.from({ length: 61 }, (_, minute) =>
    sampleAt(60 * minute, minute > 50 ? 60 : 60 + perMinute * minute),
  );
  return judgeGrowth(compare(samples, 3600)).filter(({ goal }) => goal.includes('in an hour'));
}

test('claims and memory may grow in an hour by little, whatever both ends are', () => {
  const goals = hourlyGoals(0.02);
  assert.deepEqual(
    goals.map(({ goal }) => goal),
    [
      'claim: in an hour at most 10 % more',
      'heap after collection: in an hour at most 10 % more',
      'memory of the process: in an hour at most 10 % more',
    ],
  );
  assert.ok(goals.every(({ met }) => met));
  assert.ok(hourlyGoals(2).every(({ met }) => !met));
});

test('memory that grows by one step is growth, which the slope does not see', () => {
  const samples = Array.from({ length: 60 }, (_, minute) =>
    sampleAt(60 * minute + 30, minute < 54 ? 100 : 112),
  );
  const missed = judgeGrowth(compare(samples, 3600)).filter(({ met }) => !met);
  assert.deepEqual(
    missed.map(({ goal }) => goal),
    [
      'heap after collection: at the end at most 1.10 × the beginning',
      'memory of the process: at the end at most 1.10 × the beginning',
      'temporary files: at the end at most 1.00 × the beginning',
    ],
  );
});

test('files in progress are judged by their least: what is forgotten stays', () => {
  const rows = [sampleAt(1, 0), sampleAt(2, 9), sampleAt(59, 3), sampleAt(60, 2)];
  const files = compare(rows, 60).find(({ name }) => name === 'temporary files');
  assert.deepEqual([files?.first, files?.last], [0, 2]);
  assert.ok(judgeGrowth(files === undefined ? [] : [files]).every(({ met }) => !met));
});

test('beside the ratio stands the slope over all samples', () => {
  const samples = Array.from({ length: 60 }, (_, minute) => sampleAt(60 * minute, 10 + minute));
  for (const { perHour, name } of compare(samples, 3600)) {
    assert.equal(perHour.toFixed(6), '60.000000', name);
  }
  // Neither end says anything of a hill between them, and nor does the slope.
  const hill = Array.from({ length: 61 }, (_, minute) =>
    sampleAt(60 * minute, minute * (60 - minute)),
  );
  for (const { perHour } of compare(hill, 3600)) assert.equal(perHour.toFixed(6), '0.000000');
});

test('nothing that stays nothing is no growth; something from nothing is', () => {
  assert.deepEqual(ratioOf([sampleAt(1, 0), sampleAt(60, 0)], 60), new Set([1]));
  // A fifth of a table's rows may always be dead.
  assert.deepEqual(ratioOf([sampleAt(1, 0), sampleAt(60, 1)], 60), new Set([Infinity, 5]));
});

test('goals are missed above what a figure may grow; what is kept may', () => {
  const goals = judgeGrowth(compare([sampleAt(1, 10), sampleAt(60, 30)], 60));
  assert.ok(goals.length > 0 && goals.every(({ met }) => !met));
  assert.ok(goals.every(({ goal }) => !/^(listing_snapshots|images): (table|index)/.test(goal)));
  assert.ok(goals.some(({ goal }) => goal.startsWith('listing_images: table')));
  const steady = judgeGrowth(compare([sampleAt(1, 10), sampleAt(60, 10)], 60));
  assert.ok(steady.every(({ met, measured }) => met && /^1\.00$|^0\.0 %$/.test(measured)));
});
