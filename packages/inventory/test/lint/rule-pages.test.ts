import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { lintInventory } from '@oselya/inventory';
import { readDay } from '../../src/day.ts';
import { rules } from '../../src/lint/rules/index.ts';
import { ruleName } from '../../src/rule-ids.ts';

const folder = new URL('../../../../docs/inventory/rules/', import.meta.url);
const pages = readdirSync(folder).filter((name) => name !== 'README.md');
const overview = readFileSync(new URL('README.md', folder), 'utf8');

test('each rule has a page, and each page a rule', () => {
  const expected = rules.map(({ code }) => `${ruleName(code)}.md`);
  assert.deepEqual(pages.toSorted(), expected.toSorted());
});

for (const { code, severity, options } of rules) {
  const name = ruleName(code);
  const page = readFileSync(new URL(`${name}.md`, folder), 'utf8');

  test(`the first example of ${name} is found, the second is not`, async () => {
    const [bad = '', good = ''] = [...page.matchAll(/^```json\n(.*?)^```$/gms)].map(
      ([, text = '']) => text,
    );
    const today = readDay('2026-11-20');
    assert.ok(today);
    const codes = async (text: string) =>
      (await Array.fromAsync(lintInventory(text, { today }))).map((finding) => finding.code);
    assert.ok((await codes(bad)).includes(code), bad);
    assert.deepEqual(await codes(good), []);
  });

  test(`the page and the overview say how bad ${name} is, and the page its options`, () => {
    assert.ok(page.includes(severity === 'error' ? 'It is an error' : 'It is a warning'));
    assert.match(
      overview,
      new RegExp(`^\\| \\[${name}\\]\\(${name}\\.md\\) *\\| ${severity} `, 'm'),
    );
    for (const option of Object.keys(options))
      assert.match(page, new RegExp(`^\\| \`${option}\` `, 'm'));
  });
}
