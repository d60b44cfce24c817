import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lintInventory } from '@oselya/inventory';
import { Baseline, parseBaseline } from '../../src/lint/baseline.ts';
import { readDay } from '../../src/day.ts';
import { VALID_RECORD } from '../support/findings.ts';

const TODAY = readDay('2026-11-20') ?? undefined;
const text = (...records: object[]) => JSON.stringify(records);
const lint = async (source: string, baseline?: Baseline) =>
  Array.fromAsync(
    lintInventory(source, {
      ...(TODAY && { today: TODAY }),
      ...(baseline && { ignores: (finding) => baseline.has(finding) }),
    }),
  );

test('what a baseline took in is known again after other records came before it', async () => {
  const bad = { ...VALID_RECORD, id: 'bad', last_reviewed: 'never', port: 0 };
  const written = new Baseline('.');
  const findings = await lint(text(bad));
  assert.ok(findings.length >= 3);
  for (const finding of findings) assert.ok(written.add(finding));

  const read = parseBaseline(written.toString(), 'known.json');
  assert.equal(read.size, written.size);
  const worse = { ...VALID_RECORD, id: 'worse', port: 65_536 };
  const left = await lint(text(worse, bad), read);
  assert.deepEqual(
    left.filter(({ recordId }) => recordId === 'bad'),
    [],
  );
  assert.ok(left.some(({ code, recordId }) => code === 'lint/port-range' && recordId === 'worse'));
  assert.equal(read.gone(['<input>']), 0);
});

test('text that is no JSON never enters a baseline', async () => {
  const finding = (await lint('[{"id": }]')).find(({ code }) => code === 'json/syntax');
  assert.ok(finding);
  const baseline = new Baseline('.');
  assert.equal(baseline.add(finding), false);
  assert.equal(baseline.size, 0);
});

test('one finding more than were taken in is new, and one less is gone', async () => {
  const twice = text({ ...VALID_RECORD, port: 0 }, { ...VALID_RECORD, port: 0 });
  const written = new Baseline('.');
  for (const finding of await lint(twice)) written.add(finding);
  const again = parseBaseline(written.toString(), 'known.json');
  assert.deepEqual(await lint(twice, again), []);
  assert.equal(again.gone(['<input>']), 0);
  const more = parseBaseline(written.toString(), 'known.json');
  const left = await lint(
    twice.replace(']', `,${JSON.stringify({ ...VALID_RECORD, port: 0 })}]`),
    more,
  );
  assert.ok(left.some(({ code, recordIndex }) => code === 'lint/port-range' && recordIndex === 2));
  const fewer = parseBaseline(written.toString(), 'known.json');
  await lint(text({ ...VALID_RECORD, port: 0 }), fewer);
  assert.ok(fewer.gone(['<input>']) > 0);
  assert.equal(fewer.gone(['other.json']), 0);
});
