import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, linkSync, lstatSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { rmSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { lintInventory } from '@oselya/inventory';
import fc from 'fast-check';
import { applyFixes, replaceFile } from '../src/command/lint.ts';
import { parseDay } from '../src/day.ts';
import { MAX_BASELINE_BYTES } from '../src/limits.ts';
import { Baseline, parseBaseline } from '../src/lint/baseline.ts';
import { EMPTY_AUTH_VALUES } from '../src/lint/rules.ts';
import { VALID_RECORD } from './support/records.ts';
import { run } from './support/transcript.ts';

const folder = mkdtempSync(join(tmpdir(), 'inventory-lint-'));
after(() => rmSync(folder, { recursive: true }));
const path = (name: string) => join(folder, name);

const today = '2026-11-20';
const findingsIn = (text: string) => Array.fromAsync(lintInventory(text, { today }));
const lint = (records: object[], baseline?: Baseline) =>
  Array.fromAsync(
    lintInventory(JSON.stringify(records), {
      today,
      ...(baseline && { ignores: (finding) => baseline.has(finding) }),
    }),
  );

test('Days are days of the calendar', () => {
  const part = fc.nat(40).map((number) => String(number).padStart(2, '0'));
  const year = fc.constantFrom('0000', '0099', '0100', '1900', '2000', '2023', '2024', '9999');
  fc.assert(
    fc.property(year, part, part, (...parts) => {
      const text = parts.join('-');
      const moment = new Date(`${text}T00:00:00Z`);
      const isDay = !Number.isNaN(moment.valueOf()) && moment.toISOString().startsWith(text);
      assert.equal(parseDay(text), isDay && parts[0] >= '0100' ? text : null);
    }),
    { numRuns: 1_000 },
  );
});

async function withoutMeaning(values: string[]) {
  const records = values.map((auth) => ({ ...VALID_RECORD, exposure: 'public', auth }));
  const findings = await lint(records);
  return findings
    .filter(({ code }) => code === 'lint/public-without-auth')
    .map(({ recordIndex }) => values[recordIndex ?? -1]);
}

test('Placeholders in auth are found in any form, and other texts are not', async () => {
  const words = [...EMPTY_AUTH_VALUES].flatMap((word) => {
    return [word, word.toUpperCase(), ` ${word}.`, `(${word})`, word.replaceAll(' ', '_')];
  });
  const empty = [...new Set([...words, '', ' \t', '-', '—', '…', '?', '???', 'n.a.', '<none>'])];
  assert.deepEqual(await withoutMeaning(empty), empty);
  const meaningful = [
    'Open to everybody: a status page',
    'open',
    'anonymous',
    'None: a status page',
  ];
  assert.deepEqual(
    await withoutMeaning([...meaningful, 'nothing but OAuth', 'note', 'mTLS', 'відкрито']),
    [],
  );
});

test('A baseline counts equal findings, and never has invalid JSON', async () => {
  const one = { ...VALID_RECORD, port: 0 };
  const written = new Baseline('.');
  for (const finding of await lint([one, one])) written.add(finding);
  const read = () => parseBaseline(written.toString(), 'known.json');
  const [same, more, fewer] = [read(), read(), read()];
  assert.deepEqual([await lint([one, one], same), same.countStale(['<input>'])], [[], 0]);
  const left = await lint([one, one, one], more);
  assert.ok(left.some(({ code, recordIndex }) => code === 'lint/port-range' && recordIndex === 2));
  await lint([one], fewer);
  assert.ok(fewer.countStale(['<input>']) > 0);
  assert.equal(fewer.countStale(['other.json']), 0);
  const [invalid] = await Array.fromAsync(lintInventory('[{"id": }]'));
  assert.ok(invalid);
  assert.equal(written.add(invalid), false);
});

test('Fixes change only the invalid values, and not texts that have changed', async () => {
  const wrong = { exposure: ' VPN ', port: '443', last_reviewed: '2026/1/5' };
  const right = { exposure: 'vpn', port: 443, last_reviewed: '2026-01-05' };
  const extra = fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue(), { maxKeys: 3 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(extra, { minLength: 1, maxLength: 4 }),
      fc.constantFrom(undefined, 2, '\t'),
      fc.constantFrom('', '\uFEFF'),
      async (extras, space, mark) => {
        const write = (values: object) => {
          const records = extras.map((more) => ({ ...more, ...VALID_RECORD, ...values }));
          return mark + JSON.stringify(records, null, space);
        };
        const text = write(wrong);
        const fixed = applyFixes(text, await findingsIn(text));
        assert.deepEqual(fixed, { text: write(right), applied: 3 * extras.length });
        assert.equal(applyFixes(fixed.text, await findingsIn(fixed.text)).applied, 0);
      },
    ),
  );
  const text = JSON.stringify([{ ...VALID_RECORD, port: '443' }]);
  const other = text.replace('"443"', '"80"');
  assert.deepEqual(applyFixes(other, await findingsIn(text)), { text: other, applied: 0 });
});

test('A file is replaced atomically and keeps its permissions, links and other names', async () => {
  const [file, link, hardLink] = [path('net.json'), path('link.json'), path('old.json')];
  writeFileSync(file, 'old');
  chmodSync(file, 0o666);
  symlinkSync('net.json', link);
  linkSync(file, hardLink);
  await replaceFile(link, 'new');
  assert.equal(readFileSync(file, 'utf8'), 'new');
  assert.equal(readFileSync(hardLink, 'utf8'), 'old');
  assert.equal(statSync(file).mode & 0o777, 0o666);
  assert.ok(lstatSync(link).isSymbolicLink());
  await replaceFile(path('fresh.json'), 'new');
  assert.equal(readFileSync(path('fresh.json'), 'utf8'), 'new');
  await assert.rejects(replaceFile(path('none/net.json'), 'new'), /there is no such folder/);
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.endsWith('.tmp')),
    [],
  );
});

test('The option --fix rejects a pipe without reading it, and keeps the other files', async () => {
  const [file, pipe] = [path('fix.json'), path('pipe')];
  const text = JSON.stringify([{ ...VALID_RECORD, port: '443' }]);
  writeFileSync(file, text);
  // Reading the pipe would wait forever, as it has no writer.
  execFileSync('mkfifo', [pipe]);
  const { status, stdout, stderr } = await run(['lint', '--fix', file, pipe]);
  assert.match(stderr, /--fix writes files and not .*pipe, which is a pipe or a device; save it/);
  assert.deepEqual([status, stdout, readFileSync(file, 'utf8')], [2, '', text]);
});

test('A baseline beyond its limit and a configuration that is too deep are rejected', async () => {
  const [file, baseline, config] = [path('valid.json'), path('known.json'), path('deep.json')];
  writeFileSync(file, JSON.stringify([VALID_RECORD]));
  writeFileSync(baseline, '');
  truncateSync(baseline, MAX_BASELINE_BYTES + 1);
  for (const more of [[], ['--update-baseline']]) {
    const { status, stdout, stderr } = await run(['lint', '--baseline', baseline, ...more, file]);
    assert.match(stderr, /it is larger than 256 MiB; use it for fewer files/);
    assert.deepEqual([status, stdout], [2, '']);
  }
  for (const opening of ['[', '{"rules":']) {
    writeFileSync(config, opening.repeat(100_000));
    const { status, stderr } = await run(['lint', '--config', config, file]);
    assert.match(stderr, /deep\.json:1:1: it is nested too deep; flatten it\n$/);
    assert.equal(status, 2);
  }
});
