import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Expiries } from '../src/auth/expiries.ts';
import { constant } from '../src/auth/peers.ts';
import { evaluateCounts, evaluateSpeed as evaluateAuthSpeed } from '../src/auth/report.ts';
import { cachedAssistants, variants as authVariants } from '../src/auth/variants.ts';
import { evaluateGoals as evaluateChat, type Sample as ChatSample } from '../src/chat/report.ts';
import * as ingest from '../src/ingest/ingest.ts';
import { computeInsertionRate } from '../src/ingest/pgbench.ts';
import { formatReport as formatIngest } from '../src/ingest/report.ts';
import * as ingestVariants from '../src/ingest/variants.ts';
import { formatReport as formatInventory } from '../src/inventory/report.ts';
import type { Sample as InventorySample } from '../src/inventory/sample.ts';
import { jsonParse, lint, oselya } from '../src/inventory/variants.ts';
import type { Cost } from '../src/load/cost.ts';
import type { Sample as LoadSample } from '../src/load/rounds.ts';
import {
  formatReport as formatPipeline,
  type Sample as JobSample,
} from '../src/pipeline/report.ts';
import { type DrainSample, findCountMismatches } from '../src/queue/drain.ts';
import * as queues from '../src/queue/variants.ts';
import type { Goal } from '../src/report.ts';
import { evaluateGoals as evaluateSearch } from '../src/search/goals.ts';
import { KINDS, RANKED_KINDS } from '../src/search/questions.ts';
import { type Findings, formatReport as formatSearch } from '../src/search/report.ts';

const options = { rounds: 2, seconds: 1, connections: 1, isSmokeRun: false, out: undefined };
const areMet = (goals: readonly Goal[]) => goals.map(({ isMet }) => isMet);

describe('auth', () => {
  const [assistant = ''] = cachedAssistants.map(({ name }) => name);

  /** Creates samples of two rounds, in the second of which the machine is half as fast. */
  const createSamples = (rates: Record<string, number>) =>
    new Map(
      authVariants.map(({ name }) => [
        name,
        // The speed goals use only these properties.
        [1, 2].map(
          (round) => ({ requests: (rates[name] ?? 1000) / round, seconds: 1 }) as LoadSample,
        ),
      ]),
    );
  const createCost = (variant: string, statements: number): Cost => ({
    variant,
    requests: 100,
    statements,
    statementsMean: statements,
    calls: 0,
  });

  test('speed is judged within each round and against each peer', () => {
    const goals = evaluateAuthSpeed(createSamples({ [assistant]: 2000, [constant.name]: 4001 }));
    assert.equal(goals.length, 3 * cachedAssistants.length);
    assert.deepEqual(goals[0], {
      goal: `${assistant}: at least 2.0 × better-auth`,
      measured: '2.00 (2.00–2.00)',
      isMet: true,
    });
    assert.ok(goals.slice(1, cachedAssistants.length).every(({ isMet }) => !isMet));
    const ceiling = goals.filter(({ goal }) => goal.endsWith(constant.name));
    assert.deepEqual(areMet(ceiling), Array(cachedAssistants.length).fill(false));
  });

  test('the assistant may send two statements, and peers any number', () => {
    const costs = [createCost(assistant, 2), createCost('better-auth', 9)];
    assert.equal(evaluateCounts(costs, [])[0]?.isMet, true);
    assert.equal(evaluateCounts([...costs, createCost(assistant, 3)], [])[0]?.isMet, false);
  });

  test('each expired token is redeemed once, and no request is rejected', () => {
    const evaluate = (redemptions: number[], failedCount = 0) => {
      const expiries: Expiries = {
        providerMs: 0,
        processes: 2,
        requests: 200,
        redemptions,
        failedCount,
      };
      return areMet(evaluateCounts([], [expiries]).slice(1));
    };
    assert.deepEqual(evaluate([1, 1]), [true, true]);
    assert.deepEqual(evaluate([1, 2]), [false, true]);
    assert.deepEqual(evaluate([0]), [false, true]);
    assert.deepEqual(evaluate([1], 3), [true, false]);
  });
});

describe('chat', () => {
  const createSample = (changes: Partial<ChatSample>): ChatSample => ({
    variant: 'assistant',
    arrival: 'within a second',
    round: 1,
    seconds: 5,
    cpuMs: 1,
    tokens: 25_000,
    tokensPerSecond: 50,
    p50: 1,
    p99: 10,
    max: 20,
    failures: [],
    ...changes,
  });
  const idle = { variant: 'assistant' as const, sockets: 1000, rss: 50_000, heap: 1 };
  const samples = [10, 20, 60].map((p99) => createSample({ p99 }));
  const results = {
    samples,
    idle: [idle],
    storedCount: 800,
    expectedCount: 800,
    isSmokeRun: false,
  };
  const failures = ['expected event 2, received event 3'];
  const evaluate = (changes: Partial<typeof results>) =>
    areMet(evaluateChat({ ...results, ...changes }));

  test('latency is judged by the median of the rounds, without the relay and without bursts', () => {
    assert.deepEqual(evaluate({}), [true, true, true]);
    const relay = createSample({ variant: 'relay', p99: 500, failures });
    const burst = createSample({ arrival: 'all at once', p99: 500 });
    for (const ignored of [relay, burst]) {
      const changedSamples = [...samples, ignored, ignored, ignored, ignored];
      assert.deepEqual(evaluate({ samples: changedSamples }), [true, true, true]);
    }
    assert.deepEqual(evaluate({ samples: [createSample({ p99: 20.1 })] }), [false, true, true]);
  });

  test('a larger socket or a missing measurement misses the memory goal', () => {
    for (const sockets of [[{ ...idle, rss: 50_001 }], [{ ...idle, heap: 50_001 }], []]) {
      assert.deepEqual(evaluate({ idle: sockets }), [true, false, true]);
    }
  });

  test('a lost or duplicate message and a misplaced event miss the goal of a smoke run too', () => {
    const wrong = [
      { storedCount: 799 },
      { storedCount: 801 },
      { samples: [createSample({ failures })] },
    ];
    for (const changes of wrong)
      assert.deepEqual(evaluate({ ...changes, isSmokeRun: true }), [false]);
  });
});

describe('search', () => {
  function createFindings(
    listings: number,
    p95: number,
    { recall = 1, recallAfter = 1, rate = 60, failures = [] as string[] } = {},
  ): Findings {
    const all = { p50: p95 / 2, p95, max: p95 * 2, searches: 100 };
    const samples = [1, 2, 3].flatMap((round) =>
      KINDS.map((kind) => ({
        kind,
        listings,
        round,
        clients: 8,
        searches: 100,
        seconds: 2,
        cpuMs: 300,
        all,
        groups: { 'filter none': all },
      })),
    );
    const createRecall = (value: number) => ({
      filter: '1 %',
      share: 0.01,
      questions: 10,
      recall: value,
    });
    return {
      listings,
      samples,
      singleClientSamples: samples.map((sample) => ({ ...sample, clients: 1 })),
      statementRates: [1, 2, 3].flatMap((round) =>
        RANKED_KINDS.map((kind) => ({ kind, listings, round, rate })),
      ),
      recalls: [createRecall(recall)],
      churned: (['changed', 'vacuumed'] as const).map((state) => ({
        state,
        deadRows: 12,
        indexBytes: 5 * 2 ** 20,
        recalls: [createRecall(recallAfter)],
      })),
      equality: { whole: 5, inBlocks: 3, failures },
    };
  }

  const findMissed = (...findings: Findings[]) =>
    evaluateSearch(findings)
      .filter(({ isMet }) => !isMet)
      .map(({ goal }) => goal);

  test('each goal is judged separately', () => {
    assert.deepEqual(findMissed(createFindings(100, 20), createFindings(1000, 40)), []);
    assert.equal(findMissed(createFindings(100, 40), createFindings(1000, 51)).length, 4);
    assert.equal(findMissed(createFindings(100, 80), createFindings(1000, 101)).length, 6);
    const [growth = ''] = findMissed(createFindings(100, 10), createFindings(1000, 21));
    assert.match(growth, /at most 2 × the p95/);
    const [rate = ''] = findMissed(createFindings(100, 10, { rate: 70 }));
    assert.match(rate, /fulltext: at least 0.8 × the rate of the same statements/);
    const [recall = ''] = findMissed(createFindings(100, 10, { recall: 0.94 }));
    assert.match(recall, /recall@10 .* filter 1 %, 100/);
    assert.deepEqual(findMissed(createFindings(100, 10, { recallAfter: 0.94 })), [
      'recall@10 at least 0.95 after changes, filter 1 %, 100 listings',
      'recall@10 at least 0.95 after changes and a vacuum, filter 1 %, 100 listings',
    ]);
    const [ranking = ''] = findMissed(createFindings(100, 10, { failures: ['wrong'] }));
    assert.match(ranking, /full-text results equal the exact ranking/);
  });

  test('the report has every group, size and goal', () => {
    const findings = [createFindings(100, 20), createFindings(1000, 60)];
    const text = formatSearch({ options, findings, goals: evaluateSearch(findings), clients: 8 });
    assert.match(text, /\| hybrid +\| +1,000 \| +30\.0 \(30\.0–30\.0\) \| +60\.0/);
    assert.match(text, /\| filter none \| +10\.0 \/ 20\.0 \| +30\.0 \/ 60\.0 \|/);
    assert.match(text, /\| 1,000 +\| +vacuumed \| +12 \| +5 \| +1\.000 \|/);
    assert.match(text, /fulltext: p95 at most 50 ms with one client and 1,000 listings .* not met/);
  });
});

describe('ingest', () => {
  const createSample = (values: Partial<ingestVariants.Sample> = {}): ingestVariants.Sample => ({
    sent: 1000,
    accepted: 1000,
    stored: 1000,
    seconds: 1,
    latency: { p50: 4, p99: 20, max: 30 },
    cpuMs: 100,
    otherStatusCounts: {},
    ...values,
  });

  test('the counts of sent, accepted and stored payloads must be equal', () => {
    const check = (values: Partial<ingestVariants.Sample>) =>
      ingest.findCountMismatches('collector', createSample(values));
    assert.deepEqual(check({}), []);
    assert.deepEqual(check({ accepted: 998, otherStatusCounts: { 503: 2 } }), [
      'collector: sent 1000, accepted 998, stored 1000; other statuses: {"503":2}',
    ]);
    for (const values of [{ stored: 999 }, { stored: 1001 }, { sent: 0, accepted: 0, stored: 0 }]) {
      assert.equal(check(values).length, 1);
    }
  });

  test('the report compares rates within a round and leaves missing values empty', () => {
    const missingValues = { latency: undefined, cpuMs: undefined };
    const text = formatIngest({
      options,
      connections: 64,
      goals: [],
      samples: new Map([
        ['collector', [createSample(), createSample({ seconds: 2 })]],
        [
          'pgbench, 32 clients',
          [
            createSample({ ...missingValues, accepted: 2000 }),
            createSample({ ...missingValues, seconds: 2 }),
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

  test('the rate of pgbench excludes its warm-up', () => {
    const progress = `pgbench (17.2)
progress: 1.0 s, 20.0 tps, lat 300.000 ms stddev 90.000, 0 failed
progress: 2.0 s, 80.0 tps, lat 300.000 ms stddev 90.000, 0 failed
progress: 3.0 s, 1000.0 tps, lat 30.000 ms stddev 9.000, 0 failed
progress: 5.0 s, 400.0 tps, lat 75.000 ms stddev 9.000, 0 failed
`;
    assert.equal(computeInsertionRate(progress, 2), 600);
    assert.equal(computeInsertionRate(progress, 5), 0, 'nothing was measured');
  });

  test('a goal against a missing peer is missed', () => {
    const pgbench = { name: 'pgbench', measure: () => Promise.reject(new Error('not called')) };
    const { collector, graphileWorker, pgBoss } = ingestVariants;
    const samples = new Map(
      [collector, graphileWorker, pgBoss].map(({ name }, index) => [
        name,
        [createSample({ accepted: index === 0 ? 3000 : 1000 })],
      ]),
    );
    const [missing, ...measured] = ingest.evaluateSpeed(samples, undefined);
    assert.deepEqual(missing, {
      goal: 'collector: at least 1.0 × pgbench',
      measured: 'not measured: pgbench is not installed',
      isMet: false,
    });
    assert.deepEqual(areMet(measured), [true, true]);
    assert.deepEqual(
      ingest.evaluateSpeed(new Map([...samples, [pgbench.name, [createSample()]]]), pgbench)[0],
      { goal: 'collector: at least 1.0 × pgbench', measured: '3.00 (3.00–3.00)', isMet: true },
    );
  });
});

describe('queue', () => {
  const check = (values: Partial<DrainSample & { enqueuedCount: number }>) =>
    findCountMismatches({
      variant: queues.collector.name,
      round: 1,
      enqueuedCount: 1000,
      jobs: 500,
      seconds: 1,
      cpuMs: 10,
      startedCount: 600,
      restartedCount: 0,
      remainingCount: 400,
      ...values,
    });

  test('each started job has ended, and has started once', () => {
    assert.deepEqual(check({}), []);
    assert.deepEqual(check({ remainingCount: 401 }), [
      'collector: 1000 jobs enqueued, 600 started, 0 restarted, 401 remaining',
    ]);
    for (const values of [
      { remainingCount: 399 },
      { restartedCount: 1 },
      { startedCount: 0, remainingCount: 1000 },
    ]) {
      assert.equal(check(values).length, 1);
    }
  });

  test('a peer may leave jobs in progress', () => {
    const variant = queues.graphileWorker.name;
    assert.deepEqual(check({ variant, remainingCount: 424 }), []);
    assert.equal(check({ variant, remainingCount: 425 }).length, 1);
  });
});

describe('inventory', () => {
  const validDocument = { records: 1000, faulty: 0, format: 'json' } as const;
  const createSample = (values: Partial<InventorySample>): InventorySample => ({
    variant: oselya.name,
    round: 1,
    document: validDocument,
    megabytes: 1,
    exitStatus: 0,
    wallMs: 1000,
    usage: { cpuMs: 900, peakMB: 100 },
    errors: 0,
    ...values,
  });
  const createYardstick = (round: number, wallMs: number) =>
    createSample({ variant: jsonParse.name, round, wallMs });
  /** Creates samples of `lint` and `validate` for the smaller document, in the first round. */
  const createLintPair = (cpuMs: number) => {
    const document = { ...validDocument, records: 100 };
    return [
      createSample({ document, usage: { cpuMs: 100, peakMB: 100 } }),
      createSample({ document, variant: lint.name, usage: { cpuMs, peakMB: 100 } }),
    ];
  };

  test('time is judged round by round, and memory by its maximum', () => {
    const samples = [
      createSample({ wallMs: 1200 }),
      createYardstick(1, 1000),
      createYardstick(2, 4000),
      createSample({ round: 2, wallMs: 4800 }),
      ...createLintPair(140),
    ];
    const { text, failures } = formatInventory(samples, options);
    assert.deepEqual(failures, []);
    assert.match(text, /1\.3 × the time of JSON\.parse +\| 1\.20 \(1\.20–1\.20\) \| +met/);
    assert.match(text, /100,000 records +\| 1\.40 \(1\.40–1\.40\) \| +met/);
    assert.match(text, /150 MB for every size +\| +100 MB \| +met/);
    const larger = createSample({
      document: { records: 9, faulty: 0, format: 'jsonl' },
      usage: { cpuMs: 1, peakMB: 151 },
    });
    assert.match(formatInventory([...samples, larger], options).text, /151 MB \| not met/);
  });

  test('a wrong finding or exit status fails the run, and slowness does not', () => {
    const slow = [createSample({ wallMs: 9000 }), createYardstick(1, 1000), ...createLintPair(160)];
    const { text, failures } = formatInventory(slow, options);
    assert.match(text, /100,000 records +\| 1\.60 .+not met/);
    assert.deepEqual(failures, []);
    const wrong = [
      createSample({ difference: 'expected one' }),
      createSample({ document: { ...validDocument, faulty: 1 }, exitStatus: 0 }),
      createYardstick(1, 1),
      ...createLintPair(1),
    ];
    assert.deepEqual(formatInventory(wrong, options).failures, [
      'oselya inventory validate, 1,000 records, valid: expected one',
      'oselya inventory validate, 1,000 records, 100 % invalid: exit status 0, expected 1',
    ]);
  });

  test('the report shows that a peer crashed', () => {
    const peer = createSample({ variant: 'peer', exitStatus: null, usage: undefined });
    const samples = [createSample({}), createYardstick(1, 1000), ...createLintPair(1), peer];
    const { text, failures } = formatInventory(samples, options);
    assert.match(text, /MB: peer +\|.+crashed/);
    assert.deepEqual(failures, []);
  });
});

describe('pipeline', () => {
  const createSample = (values: Partial<JobSample>): JobSample => ({
    variant: 'mock, 4 slots',
    round: 1,
    payloads: 'new',
    completedCount: 100,
    incompleteCount: 0,
    seconds: 2,
    busy: 0.97,
    calls: 200,
    images: 0,
    imageRequestCount: 0,
    requests: undefined,
    ...values,
  });
  const createUnchanged = (values: Partial<JobSample>) =>
    createSample({ payloads: 'unchanged', calls: 0, ...values });

  test('correct counts and idle slots are not failures', () => {
    const { failures, text } = formatPipeline(
      [createSample({ busy: 0.5 }), createUnchanged({})],
      options,
    );
    assert.deepEqual(failures, []);
    assert.match(text, /mock, 4 slots, new +\| +50\.0/);
    assert.match(text, /busy at least 95 % .*not met/);
  });

  test('slots must be busy with unchanged listings too, except in a smoke run', () => {
    const samples = [createSample({ busy: 0.95 }), createUnchanged({ busy: 0.94 })];
    const { text } = formatPipeline(samples, options);
    assert.match(text, /mock, 4 slots, new: busy at least 95 % .* met/);
    assert.match(text, /mock, 4 slots, unchanged: busy at least 95 % .* not met/);
    assert.doesNotMatch(
      formatPipeline(samples, { ...options, isSmokeRun: true }).text,
      /busy at least/,
    );
  });

  test('each image of a new listing may cost a call, and is fetched once', () => {
    const withImages = { variant: 'mock, 4 slots, 3 images', images: 3 };
    const { failures, text } = formatPipeline(
      [
        createSample({ ...withImages, calls: 500, imageRequestCount: 300 }),
        createUnchanged(withImages),
      ],
      options,
    );
    assert.deepEqual(failures, []);
    assert.match(
      text,
      /at most 2 calls for a new listing, plus one for each image \| +2\.00 \| met/,
    );
    const wrong = [
      createSample({ ...withImages, calls: 501, imageRequestCount: 301 }),
      createUnchanged({ ...withImages, imageRequestCount: 1 }),
    ];
    assert.deepEqual(formatPipeline(wrong, options).failures, [
      'mock, 4 slots, 3 images, new: 5.01 calls per listing, expected at most 5',
      'mock, 4 slots, 3 images, new: 301 image requests, expected 300',
      'mock, 4 slots, 3 images, unchanged: 1 image requests, expected 0',
    ]);
  });

  test('incomplete jobs and surplus calls are failures', () => {
    const samples = [
      createSample({ completedCount: 98, incompleteCount: 2, calls: 201 }),
      createUnchanged({ calls: 1, requests: { chat: 1, embed: 0, maxTextCount: 1 } }),
    ];
    assert.deepEqual(formatPipeline(samples, options).failures, [
      'mock, 4 slots, new: 2 jobs did not complete',
      'mock, 4 slots, new: 2.01 calls per listing, expected at most 2',
      'mock, 4 slots, unchanged: 0.01 calls per listing, expected at most 0',
      'mock, 4 slots, unchanged: the model server received unchanged listings',
    ]);
  });
});
