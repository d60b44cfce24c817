import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Readable } from 'node:stream';
import { type EndpointRecord, runInventory } from '@oselya/inventory';
import { toDay } from '../../src/day.ts';
import { csvReport } from '../../src/report/csv.ts';
import { htmlReport } from '../../src/report/html.ts';
import { summarize } from '../../src/report/summary.ts';
import { VALID_RECORD } from '../support/findings.ts';
import { Collector } from '../support/transcript.ts';

const today = toDay(new Date('2026-11-20'));

test('a page shows and links addresses without their passwords', () => {
  const record = {
    ...VALID_RECORD,
    exposure: 'private',
    docs: 'https://reader:hunter2@docs.example.test/',
    url: 'https://admin:hunter2@shop.example.test/x',
  } as const;
  const page = [...htmlReport([record], { title: 'net', today })].join('');
  assert.doesNotMatch(page, /hunter2/);
  for (const address of ['https://shop.example.test/x', 'https://docs.example.test/']) {
    assert.ok(page.includes(`<a href="${address}"`), address);
  }
});

test('a page keeps properties, ids and owners with the names of what objects inherit', () => {
  const record = JSON.parse(
    JSON.stringify({ ...VALID_RECORD, id: '__proto__', owner_host: 'toString', x: 1 }).replace(
      '"x":1',
      '"__proto__":{"port":"of nobody"},"constructor":"its maker"',
    ),
  );
  const page = [
    ...htmlReport([record, { ...record, owner_host: '__proto__' }], { title: 'net', today }),
  ].join('');
  for (const shown of ['__proto__', 'toString', 'constructor', 'of nobody', 'its maker']) {
    assert.ok(page.includes(shown), shown);
  }
  // Each owner is counted once.
  assert.match(page, />toString<[^]{0,80}>1</);
  assert.match(page, />__proto__<[^]{0,80}>1</);
});

test('a page and a table leave joiners, and show what reorders text as escapes', () => {
  const record: EndpointRecord = {
    ...VALID_RECORD,
    exposure: 'local',
    name: 'می\u200cخواهم 👩\u200d💻 \u202e\u0007',
  };
  for (const report of [htmlReport([record], { title: 'net', today }), csvReport([record])]) {
    const text = [...report].join('');
    assert.ok(text.includes(`می\u200cخواهم 👩\u200d💻 ${String.raw`\u202e\u0007`}`), text);
  }
});

test('a page of more than 5,000 records says that it may be slow', () => {
  const record: EndpointRecord = { ...VALID_RECORD, exposure: 'local' };
  const pageOf = (length: number) =>
    [
      ...htmlReport(
        Array.from({ length }, () => record),
        { title: 'net', today },
      ),
    ].join('');
  assert.doesNotMatch(pageOf(5_000), /may be slow/);
  assert.match(pageOf(5_001), /more than 5,000 records and may be slow/);
});

test('a review in the future is counted as one', () => {
  const reviews = ['2026-11-21', '2030-01-01', '2026-11-20', 'never'];
  const records = reviews.map((day): EndpointRecord => {
    return { ...VALID_RECORD, exposure: 'local', last_reviewed: day };
  });
  const { byReview } = summarize(records, today);
  assert.deepEqual(
    byReview.map(({ count }) => count),
    [2, 1, 0, 0, 0, 1],
  );
  assert.equal(byReview[0]?.label, 'in the future');
});

test('the command says so too, for a page alone', async () => {
  const records = Array.from({ length: 5_001 }, (_, id) => ({ ...VALID_RECORD, id: `${id}` }));
  for (const [format, told] of [
    ['html', /^oselya inventory report: 5001 records make a page that is slow/],
    ['csv', /^$/],
  ] as const) {
    const [stdout, stderr] = [new Collector(), new Collector()];
    const stdin = Readable.from([Buffer.from(JSON.stringify(records))]);
    const io = { stdin, stdout, stderr, env: {} };
    assert.equal(await runInventory(['report', '--format', format, '-'], io), 0);
    assert.match(stderr.text, told);
  }
});
