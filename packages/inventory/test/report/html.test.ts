import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toDay } from '../../src/day.ts';
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
