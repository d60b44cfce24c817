import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Delivery } from '../../src/ingest/deliver.ts';
import { emptyReport, load } from '../../src/ingest/load.ts';
import type { Row } from '../../src/ingest/row.ts';

type Settings = {
  rows: Row[];
  deliver?: (payload: Record<string, unknown>, key: string) => Promise<Delivery>;
  dryRun?: boolean;
  keyPrefix?: string;
  signal?: AbortSignal;
};

const accepted = () => Promise.resolve<Delivery>({ outcome: 'accepted' });

async function run({
  rows,
  deliver = accepted,
  dryRun = false,
  keyPrefix = 'load',
  signal,
}: Settings) {
  const report = emptyReport();
  const told: string[] = [];
  const rejected: [number, string][] = [];
  const keys: string[] = [];
  async function* read() {
    for (const row of rows) yield await Promise.resolve(row);
  }
  let failure: unknown;
  await load(
    read(),
    {
      toPayload: (fields) => ({ payload: fields }),
      deliver: (payload, key) => {
        keys.push(key);
        return deliver({ ...payload }, key);
      },
      dryRun,
      keyPrefix,
      rejected: {
        add: async (row, reason) => {
          rejected.push([row.line, reason]);
          await Promise.resolve();
        },
        [Symbol.asyncDispose]: () => Promise.resolve(),
      },
      signal: signal ?? new AbortController().signal,
      tell: (line) => told.push(line),
      onProgress: () => undefined,
    },
    report,
  ).catch((error: unknown) => {
    failure = error;
  });
  return { report, told, rejected, keys, failure };
}

const row = (line: number, fields: Record<string, unknown> = {}): Row => ({
  line,
  end: line,
  fields: { source_slug: 'a', external_id: String(line), description: 'Flat', ...fields },
});
const rows = (count: number) => Array.from({ length: count }, (_, nth) => row(nth + 1));

test('each record is counted by what became of it; bad ones are told and kept, with their lines', async () => {
  const deliveries: Record<string, Delivery> = {
    1: { outcome: 'accepted' },
    2: { outcome: 'known' },
    3: { outcome: 'refused', reason: 'no' },
    4: { outcome: 'failed', reason: 'down' },
    7: { outcome: 'unprocessed', reason: 'ended failed' },
  };
  const { report, told, rejected, keys } = await run({
    rows: [
      ...rows(4),
      row(5, { price: '1\u001B[2J', rooms: -1 }),
      { line: 6, end: 6, reason: 'is no JSON', found: '{' },
      row(7),
    ],
    deliver: ({ external_id: id }) =>
      Promise.resolve(deliveries[String(id)] ?? { outcome: 'known' }),
  });
  assert.deepEqual(report.counts, {
    read: 7,
    accepted: 1,
    known: 1,
    unprocessed: 1,
    refused: 3,
    failed: 1,
  });
  assert.deepEqual(told.toSorted(), [
    'line 3: no',
    'line 4: down',
    'line 5: price must be number; rooms must be >= 0',
    'line 6: is no JSON',
    'line 7: ended failed',
  ]);
  assert.deepEqual(new Set(rejected.map(([line]) => line)), new Set([3, 4, 5, 6, 7]));
  assert.equal(keys.length, 5);
});

test('a key is of the load, the place and the content', async () => {
  const first = await run({ rows: rows(3) });
  assert.deepEqual((await run({ rows: rows(3) })).keys, first.keys);
  assert.equal(new Set(first.keys).size, 3);
  const changed = await run({ rows: [row(1), row(2, { price: 5 }), row(3)] });
  assert.deepEqual(
    changed.keys.map((key, nth) => key === first.keys[nth]),
    [true, false, true],
  );
  const moved = await run({ rows: [row(2, { external_id: '1' })] });
  assert.ok(!first.keys.includes(moved.keys[0] ?? ''), 'a listing may stand in a file twice');
  assert.ok(!first.keys.includes((await run({ rows: rows(1), keyPrefix: 'other' })).keys[0] ?? ''));
  for (const key of first.keys) assert.match(key, /^[\x20-\x7e]{1,255}$/);
});

test('a dry run sends nothing and judges everything', async () => {
  const { report, keys, told } = await run({
    rows: [row(1), row(2, { floor: 'x' })],
    dryRun: true,
  });
  assert.deepEqual(report.counts, {
    read: 2,
    accepted: 0,
    known: 0,
    unprocessed: 0,
    refused: 1,
    failed: 0,
  });
  assert.deepEqual(told, ['line 2: floor must be integer']);
  assert.deepEqual(keys, []);
});

test('with five failures in a row nothing more is begun', async () => {
  const failing = await run({
    rows: rows(1000),
    deliver: () => Promise.resolve({ outcome: 'failed', reason: 'down' }),
  });
  assert.equal(failing.report.isGivenUp, true);
  assert.equal(failing.failure, undefined);
  assert.ok(failing.report.counts.failed >= 5 && failing.report.counts.read < 30);

  let nth = 0;
  const flaky = await run({
    rows: rows(100),
    deliver: () => {
      nth += 1;
      return Promise.resolve(
        nth % 5 === 0 ? { outcome: 'known' } : { outcome: 'failed', reason: 'x' },
      );
    },
  });
  assert.equal(flaky.report.isGivenUp, false);
  assert.deepEqual(flaky.report.counts, {
    read: 100,
    accepted: 0,
    known: 20,
    unprocessed: 0,
    refused: 0,
    failed: 80,
  });
});

test('a hundred bad records are told, and all are counted and kept', async () => {
  const { report, told, rejected } = await run({
    rows: Array.from({ length: 300 }, (_, nth) => row(nth + 1, { price: 'x' })),
  });
  assert.equal(report.counts.refused, 300);
  assert.equal(rejected.length, 300);
  assert.equal(told.length, 101);
  assert.match(told.at(-1) ?? '', /--rejected/);
});

test('a stopped run, and one that cannot go on, end after what is on its way', async () => {
  const controller = new AbortController();
  const stopped = await run({
    rows: rows(100),
    signal: controller.signal,
    deliver: ({ external_id: id }) => {
      if (id === '20') controller.abort();
      return accepted();
    },
  });
  assert.ok(stopped.failure instanceof Error && stopped.failure.name === 'AbortError');
  assert.ok(stopped.report.counts.accepted >= 20 && stopped.report.counts.accepted < 40);

  const hopeless = await run({
    rows: rows(100),
    deliver: () => Promise.reject(new Error('no key')),
  });
  assert.ok(hopeless.failure instanceof Error && hopeless.failure.message === 'no key');
  assert.equal(hopeless.report.counts.accepted, 0);
});
