import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import type { Delivery } from '../../src/ingest/deliver.ts';
import { emptyReport, load } from '../../src/ingest/load.ts';
import type { Row } from '../../src/ingest/row.ts';
import { describeRun, keepName } from '../../src/ingest/summary.ts';

type Settings = {
  rows: Row[];
  /** What comes after them. */
  more?: (gone: AbortSignal) => Promise<Row>;
  deliver?: (payload: Record<string, unknown>, key: string) => Promise<Delivery>;
  dryRun?: boolean;
  keyPrefix?: string;
  signal?: AbortSignal;
};

const accepted = () => Promise.resolve<Delivery>({ outcome: 'accepted' });

async function run({
  rows,
  more,
  deliver = accepted,
  dryRun = false,
  keyPrefix = 'load',
  signal,
}: Settings) {
  const report = emptyReport();
  const told: string[] = [];
  const rejected: [number, string][] = [];
  const keys: string[] = [];
  const gone = new AbortController();
  async function* read() {
    for (const row of rows) yield await Promise.resolve(row);
    if (more !== undefined) yield await more(gone.signal);
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
        end: () => Promise.resolve(),
      },
      signal: signal ?? new AbortController().signal,
      gone,
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

test('a value that may be two is told with how to write it, beside what else is wrong', async () => {
  const { told } = await run({
    rows: [
      row(1, { price: '52.000', rooms: -1 }),
      row(2, { price: '1,234' }),
      row(3, { area_total: '47,125', currency: '1.200' }),
      row(4, { external_id: 1e21 }),
    ],
  });
  assert.deepEqual(told, [
    'line 1: price must be number (52.000 may be 52000 or 52: write 52000, or at most two decimals); rooms must be >= 0',
    'line 2: price must be number (1,234 may be 1234 or 1.234: write 1234, or at most two decimals)',
    told[2],
    'line 4: external_id must be string (put it in quotes, so that no digit is lost)',
  ]);
  assert.match(
    told[2] ?? '',
    /area_total must be number \(47,125 may be 47125 or 47\.125: write 47125, or at most two decimals\)/,
  );
  assert.doesNotMatch(told[2] ?? '', /1\.200/);
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

test('of the names that are no fields so many are kept as are told, and one more', () => {
  const attributes = new Set<string>();
  for (let nth = 0; nth < 1000; nth += 1) keepName(attributes, `key ${nth}`);
  assert.equal(attributes.size, 21);
  const [told] = describeRun(emptyReport().counts, { dryRun: true, attributes });
  assert.match(told ?? '', /: key 0, .*, key 19, …$/);
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

/** Waits for a record that does not come. */
async function waitForMore(gone: AbortSignal): Promise<never> {
  await once(gone, 'abort');
  gone.throwIfAborted();
  return assert.fail();
}

test('what stands in the way of all ends a reading that waits for more', async () => {
  const hopeless = await run({
    rows: rows(2),
    more: waitForMore,
    deliver: () => Promise.reject(new Error('no key')),
  });
  assert.ok(hopeless.failure instanceof Error && hopeless.failure.message === 'no key');
  const failing = await run({
    rows: rows(5),
    more: waitForMore,
    deliver: () => Promise.resolve({ outcome: 'failed', reason: 'down' }),
  });
  assert.equal(failing.report.isGivenUp, true);
  assert.equal(failing.failure, undefined);
});
