import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { lintInventory } from '@oselya/inventory';
import { SAYING_NOTHING } from '../../src/lint/rules/public-without-auth.ts';
import { VALID_RECORD } from '../support/findings.ts';

const page = readFileSync(
  new URL('../../../../docs/inventory/rules/public-without-auth.md', import.meta.url),
  'utf8',
);

/** Those that are found of public endpoints with these values of `auth`. */
async function found(values: readonly string[]): Promise<string[]> {
  const records = values.map((auth) => ({ ...VALID_RECORD, exposure: 'public', auth }));
  const findings = await Array.fromAsync(lintInventory(JSON.stringify(records)));
  return findings
    .filter(({ code }) => code === 'lint/public-without-auth')
    .map(({ recordIndex }) => values[recordIndex ?? -1] ?? '');
}

test('the page names all words that say nothing', () => {
  const [, list = ''] = /say nothing: ([^]*?)\.\n/.exec(page) ?? [];
  const named = list.matchAll(/`([^`]+)`/g).map(([, word]) => word);
  assert.deepEqual([...named], [...SAYING_NOTHING]);
});

test('words that say nothing are found however they are written', async () => {
  const plain = [...SAYING_NOTHING];
  const others = plain.flatMap((word) => [
    word.toUpperCase(),
    ` ${word}.`,
    `(${word})`,
    word.replaceAll(' ', '_'),
    word.replaceAll(' ', '-'),
  ]);
  const signs = ['', ' \t', '-', '—', '…', '?', '???', 'n.a.', '<none>'];
  const values = [...new Set([...plain, ...others, ...signs])];
  assert.deepEqual(await found(values), values);
});

test('what says who may use an endpoint, or why anybody may, is not', async () => {
  const values = [
    'Open to everybody: a status page',
    'open',
    'anonymous',
    'public',
    'None: a status page',
    'no password, but client certificates',
    'nothing but OAuth',
    'Nextcloud',
    'note',
    'OAuth',
    'mTLS',
    'відкрито для всіх',
  ];
  assert.deepEqual(await found(values), []);
});
