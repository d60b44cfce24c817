import assert from 'node:assert/strict';
import { test } from 'node:test';
import { measureRounds, orderForRound, rates } from '../../src/load/rounds.ts';
import type { Load, Outcome } from '../../src/load/generator.ts';
import type { Running } from '../../src/load/variant.ts';

const options = { rounds: 3, seconds: 2, connections: 1, smoke: false, out: undefined };

/** A server that is used a little more with every question about it. */
function running(url: string): Running {
  let cpuMs = 0;
  return {
    url,
    targets: () => Promise.resolve([]),
    counters: () => Promise.resolve({ cpuMs: (cpuMs += 5), calls: 2 * cpuMs }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** Puts no load on anything, and notes which it was asked for. */
function generator(outcome: Partial<Outcome> = {}) {
  const loads: Load[] = [];
  const runLoad = (load: Load): Promise<Outcome> => {
    loads.push(load);
    return Promise.resolve({
      requests: 100 * loads.length,
      seconds: 2,
      latency: { p50: 1, p90: 2, p99: 3, max: 4 },
      statuses: { '200': 100 },
      errors: 0,
      wrongBodies: 0,
      ...outcome,
    });
  };
  return { loads, runLoad };
}

async function measure({ runLoad }: ReturnType<typeof generator>) {
  const kept: unknown[] = [];
  const results = {
    file: '',
    keep: (_kind: string, facts: unknown) => Promise.resolve(void kept.push(facts)),
    writeTable: () => Promise.resolve(),
  };
  const variants = new Map(['a', 'b', 'c'].map((name) => [name, running(name)]));
  const found = await measureRounds(
    { variants, runLoad, expected: '@' },
    { options, results, logProgress: () => undefined },
  );
  return { ...found, kept };
}

test('the order turns around from round to round', () => {
  const items = ['a', 'b', 'c'];
  assert.deepEqual(
    [1, 2, 3].map((round) => orderForRound(round, items).join('')),
    ['abc', 'cba', 'abc'],
  );
  assert.deepEqual(items, ['a', 'b', 'c']);
});

test('every variant is warmed up and measured in every round, and every sample is kept', async () => {
  const load = generator();
  const { samples, failures, kept } = await measure(load);
  const measured = load.loads.filter((_load, index) => index % 2 === 1);
  assert.equal(measured.map(({ url }) => url).join(''), 'abccbaabc');
  assert.deepEqual([...new Set(measured.map(({ seconds }) => seconds))], [2]);
  const warmUps = load.loads.filter((_load, index) => index % 2 === 0);
  assert.deepEqual([...new Set(warmUps.map(({ seconds }) => seconds))], [0.8]);
  assert.deepEqual(failures, []);
  assert.deepEqual(
    samples.get('b')?.map(({ round }) => round),
    [1, 2, 3],
  );
  assert.deepEqual(rates(samples, 'a'), [100, 600, 700]);
  assert.equal(kept.length, 9);
});

test('a sample holds what was used meanwhile, not since the start', async () => {
  const { samples } = await measure(generator());
  const used = [...samples.values()].flat().map(({ cpuMs, calls }) => ({ cpuMs, calls }));
  assert.deepEqual(
    used,
    Array.from({ length: 9 }, () => ({ cpuMs: 5, calls: 10 })),
  );
});

test('answers that are wrong are failures, of the variant that gave them', async () => {
  const statuses = { '200': 5, '503': 2 };
  const { failures } = await measure(generator({ statuses, errors: 1, wrongBodies: 4 }));
  assert.equal(failures.length, 27);
  assert.deepEqual(failures.slice(0, 3), [
    'a: 2 answers were 503',
    'a: 1 connections broke or got no answer in time',
    'a: 4 answers were not about a user',
  ]);
});
