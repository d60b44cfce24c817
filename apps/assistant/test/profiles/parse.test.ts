import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { stringify } from 'yaml';
import { parseProfile } from '../../src/profiles/parse.ts';
import { TOOLS } from '../../src/profiles/profile.ts';

const MINIMAL = 'profile_id: a\nname: A\nsystem: Help.\n';

function faultsOf(text: string): string[] {
  const parsed = parseProfile(text);
  return 'faults' in parsed ? parsed.faults.map(({ line, rule }) => `${line}: ${rule}`) : [];
}

test('what a file leaves out is filled in', () => {
  assert.deepEqual(parseProfile(`# A comment.\n${MINIMAL}`), {
    profile: {
      profile_id: 'a',
      name: 'A',
      description: '',
      system: 'Help.',
      model: '',
      tools: [],
      is_admin_only: false,
    },
    idLine: 2,
  });
});

for (const [what, text, ...faults] of [
  [
    'an empty file',
    '',
    '1: must be a map with profile_id, name, description, system, model, tools, is_admin_only',
  ],
  [
    'a list',
    '- profile_id: a\n',
    '1: must be a map with profile_id, name, description, system, model, tools, is_admin_only',
  ],
  [
    'missing members, all of them',
    'name: A\n',
    '1: profile_id is missing: it must be 1 to 64 lower-case letters, digits, _ and -, the first no _ or -',
    '1: system is missing: it must be 1 to 32,000 characters',
  ],
  [
    'an unknown member',
    `${MINIMAL}colour: red\n`,
    '4: colour is unknown: a profile has profile_id, name, description, system, model, tools, is_admin_only',
  ],
  [
    'a member that is inherited elsewhere',
    `${MINIMAL}__proto__: { is_admin_only: true }\n`,
    '4: __proto__ is unknown: a profile has profile_id, name, description, system, model, tools, is_admin_only',
  ],
  [
    'a bad id',
    MINIMAL.replace(': a', ': Ab c'),
    '1: profile_id must be 1 to 64 lower-case letters, digits, _ and -, the first no _ or -',
  ],
  ['a name that is no text', MINIMAL.replace(': A', ': 7'), '2: name must be 1 to 100 characters'],
  [
    'empty instructions',
    MINIMAL.replace('Help.', "''"),
    '3: system must be 1 to 32,000 characters',
  ],
  [
    'a flag of an older YAML',
    `${MINIMAL}is_admin_only: yes\n`,
    '4: is_admin_only must be true or false',
  ],
  [
    'an unknown tool, in its line',
    `${MINIMAL}tools:\n  - get_listing\n  - get_password\n`,
    `6: tools must list each tool once, of: ${TOOLS.join(', ')}`,
  ],
  [
    'a tool that is there twice',
    `${MINIMAL}tools: [get_listing, get_listing]\n`,
    `4: tools must list each tool once, of: ${TOOLS.join(', ')}`,
  ],
  ['a member that is there twice', `${MINIMAL}name: B\n`, '4: Map keys must be unique'],
  ['an unknown tag', `${MINIMAL}model: !!env KEY\n`, '4: Unresolved tag: tag:yaml.org,2002:env'],
] as const) {
  test(`${what} is a fault with its line and rule`, () => {
    assert.deepEqual(faultsOf(text), faults);
  });
}

test('every fault of a file is told', () => {
  const text =
    'profile_id: A\nname: 1\ndescription: 2\nsystem: 3\nmodel: 4\ntools: 5\nis_admin_only: 6\nx: 7\ny: 8\nz: 9\n';
  const lines = faultsOf(text).map((fault) => Number(fault.split(':')[0]));
  assert.deepEqual(
    lines.toSorted((one, other) => one - other),
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
  );
});

test('an alias that grows without bound is a fault, not the end of the memory', () => {
  const levels = ['a0: &a0 [x, x, x, x, x, x, x, x, x]'];
  for (let level = 1; level < 12; level += 1) {
    const aliases = Array.from({ length: 9 }, () => `*a${level - 1}`).join(', ');
    levels.push(`a${level}: &a${level} [${aliases}]`);
  }
  const [fault] = faultsOf(levels.join('\n'));
  assert.match(fault ?? '', /Excessive alias count/);
});

test('any text is a profile or has faults in lines that exist', () => {
  const piece = fc.oneof(
    fc.constantFrom(
      'profile_id',
      'name',
      'system',
      'tools',
      ':',
      ' ',
      '\n',
      '- ',
      '*a',
      '&a ',
      '{',
      '[',
      '"',
      '? ',
      '|',
      '!!x ',
    ),
    fc.string({ unit: 'binary', maxLength: 5 }),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      const text = pieces.join('');
      const parsed = parseProfile(text);
      if (!('faults' in parsed)) return;
      assert.ok(parsed.faults.length > 0);
      const { length } = text.split(/\r\n|\r|\n/);
      for (const { line, rule } of parsed.faults) {
        assert.ok(line >= 1 && line <= length, `${line} of ${length}: ${rule}`);
        assert.notEqual(rule, '');
      }
    }),
    { numRuns: 2000 },
  );
});

test('any profile that is written as YAML is read as it is', () => {
  const line = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 100 });
  const members = {
    profile_id: fc.stringMatching(/^[a-z0-9][a-z0-9_-]{0,63}$/),
    name: line,
    description: line,
    system: line,
    model: line,
    tools: fc.uniqueArray(fc.constantFrom(...TOOLS)),
    is_admin_only: fc.boolean(),
  };
  const anyProfile = fc.record(members, { noNullPrototype: true });
  fc.assert(
    fc.property(anyProfile, (profile) => {
      assert.deepEqual(parseProfile(stringify(profile)), { profile, idLine: 1 });
    }),
    { numRuns: 300 },
  );
});
