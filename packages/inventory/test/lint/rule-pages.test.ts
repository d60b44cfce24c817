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

/** What the linter judges by: its rules, and repeated keys, which the reader of JSON finds. */
const documented = [
  ...rules.map(({ code, severity, options }) => {
    return { code, severity, options, name: ruleName(code) };
  }),
  { code: 'json/duplicate-key', severity: 'error', options: {}, name: 'duplicate-key' } as const,
];

test('each rule has a page, and each page a rule', () => {
  const expected = documented.map(({ name }) => `${name}.md`);
  assert.deepEqual(pages.toSorted(), expected.toSorted());
});

for (const { code, severity, options, name } of documented) {
  const page = readFileSync(new URL(`${name}.md`, folder), 'utf8');

  test(`the page says what ${name} finds, why, and how to mend it, with an example`, () => {
    const parts = page.split(/^(#{1,2} .*)$/m).map((part) => part.trim());
    const headings = parts.filter((_, index) => index % 2 === 1);
    const required = ['## Why', '## How to mend it', '## Example'];
    assert.equal(headings[0], `# ${name}`);
    assert.deepEqual(
      headings.filter((heading) => required.includes(heading)),
      required,
    );
    // Behind each heading there is something.
    for (const [index, heading] of headings.entries()) assert.ok(parts[2 * index + 2], heading);
  });

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
