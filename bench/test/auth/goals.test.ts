import assert from 'node:assert/strict';
import { test } from 'node:test';
import { judgeCounts, judgeSpeed } from '../../src/auth/report.ts';
import { constant } from '../../src/auth/peers.ts';
import { aged, variants } from '../../src/auth/variants.ts';
import type { Cost } from '../../src/load/cost.ts';
import type { Sample } from '../../src/load/rounds.ts';

/** Samples of two rounds: the machine is half as fast in the second. */
function samplesAt(ratesByName: Record<string, number>): Map<string, Sample[]> {
  return new Map(
    variants.map(({ name }) => [
      name,
      [1, 2].map((round) => ({
        variant: name,
        round,
        requests: (ratesByName[name] ?? 1000) / round,
        seconds: 1,
        latency: { p50: 1, p90: 1, p99: 1, max: 1 },
        statuses: {},
        errors: 0,
        wrongBodies: 0,
        cpuMs: 1,
        calls: 0,
      })),
    ]),
  );
}

const cost = (variant: string, statements: number): Cost => ({
  variant,
  requests: 100,
  statements,
  statementsMean: statements,
  calls: 0,
});

const expiries = (redemptions: number[], refused = 0) => ({
  providerMs: 0,
  processes: 2,
  requests: 200,
  redemptions,
  refused,
});

test('speed is judged within the rounds, against each peer', () => {
  const [first = ''] = aged.map(({ name }) => name);
  const goals = judgeSpeed(samplesAt({ [first]: 2000, [constant.name]: 4001 }));
  assert.equal(goals.length, 3 * aged.length);
  assert.deepEqual(goals[0], {
    goal: `${first}: at least 2.0 × better-auth`,
    measured: '2.00 (2.00–2.00)',
    met: true,
  });
  assert.ok(goals.slice(1, aged.length).every(({ met }) => !met));
  const ceiling = goals.filter(({ goal }) => goal.endsWith(constant.name));
  assert.equal(ceiling.length, aged.length);
  assert.ok(ceiling.every(({ met }) => !met));
});

test('two statements are allowed to the assistant; peers may take what they like', () => {
  const [name = ''] = aged.map((variant) => variant.name);
  const few = [cost(name, 2), cost('better-auth', 9)];
  assert.equal(judgeCounts(few, [])[0]?.met, true);
  assert.equal(judgeCounts([...few, cost(name, 3)], [])[0]?.met, false);
});

test('each expired token is redeemed once, and no request is rejected', () => {
  const judge = (found: ReturnType<typeof expiries>) =>
    judgeCounts([], [found])
      .slice(1)
      .map(({ met }) => met);
  assert.deepEqual(judge(expiries([1, 1])), [true, true]);
  assert.deepEqual(judge(expiries([1, 2])), [false, true]);
  assert.deepEqual(judge(expiries([0])), [false, true]);
  assert.deepEqual(judge(expiries([1], 3)), [true, false]);
});
