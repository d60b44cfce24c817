import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EndpointRecord } from '@oselya/inventory';
import { toDay } from '../../src/day.ts';
import { csvReport } from '../../src/report/csv.ts';
import { htmlReport } from '../../src/report/html.ts';
import { VALID_RECORD } from '../support/findings.ts';

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
