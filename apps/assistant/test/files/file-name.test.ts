import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProblemError } from '@oselya/kit';
import { create, parse } from 'content-disposition';
import fc from 'fast-check';
import { toFileName } from '../../src/files/file-name.ts';

const nul = String.fromCodePoint(0);
const turned = String.fromCodePoint(0x202e);

for (const [what, name] of [
  ['nothing', ''],
  ['this folder', '.'],
  ['the folder above', '..'],
  ['a path', 'a/b'],
  ['a way up', '../secret'],
  ['a Windows path', 'a\\b'],
  ['NUL', `a${nul}b`],
  ['a line break', 'a\nb'],
  ['a C1 control', `a${String.fromCodePoint(0x85)}b`],
  ['a line separator', `a${String.fromCodePoint(0x2028)}b`],
  ['text that turns round', `gpj${turned}exe`],
  ['a hidden file', '.env'],
  ['a dot at the end', 'plan.'],
  ['a space at the end', 'plan '],
  ['a space at the start', ' plan'],
  ['a space without break at the end', `plan${String.fromCodePoint(0xa0)}`],
  ['a device', 'NUL'],
  ['a device with an extension', 'con.txt'],
  ['a device before a space', 'aux .txt'],
  ['a port', 'Com1'],
  ['a port with a raised digit', 'lpt².log'],
  ['a console', 'CONOUT$'],
  ['201 bytes', 'a'.repeat(201)],
  ['101 Cyrillic letters', 'ж'.repeat(101)],
] as const) {
  test(`${what} is no name of a file`, () => {
    assert.throws(
      () => toFileName(name),
      (error) =>
        error instanceof ProblemError &&
        error.code === 'validation_failed' &&
        error.errors?.every(({ path }) => path === 'params/name') === true,
    );
  });
}

for (const name of [
  'plan.pdf',
  'план квартири (2).pdf',
  'a',
  '-rf',
  'a..b',
  'console.txt',
  'com10',
  'nul-and-void.txt',
  'ж'.repeat(100),
  '👨‍👩‍👧 сім’я.jpg',
  '%2e%2e',
]) {
  test(`${name} is one`, () => assert.equal(toFileName(name), name));
}

test('what looks the same is the same name', () => {
  const composed = 'їжак.txt';
  const decomposed = composed.normalize('NFD');
  assert.notEqual(composed, decomposed);
  assert.equal(toFileName(decomposed), composed);
});

/** Names that rules are about, whole or in pieces, beside any others. */
const anyName = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 120 }),
  fc.string({ unit: 'grapheme', maxLength: 120 }),
  fc
    .array(
      fc.constantFrom('.', ' ', '/', '\\', 'con', 'nul', '1', 'ї', nul, turned, '%', '"', "'"),
      {
        maxLength: 12,
      },
    )
    .map((parts) => parts.join('')),
);

test('any text is a safe segment of a path, or a problem', () => {
  let accepted = 0;
  fc.assert(
    fc.property(anyName, (text) => {
      let name: string;
      try {
        name = toFileName(text);
      } catch (error) {
        assert.ok(error instanceof ProblemError && error.status === 422);
        return;
      }
      accepted += 1;
      assert.equal(toFileName(name), name);
      assert.doesNotMatch(name, /[/\\\p{Cc}]|^\.|\.$|^$/u);
      assert.ok(Buffer.byteLength(name) <= 200);
    }),
    { numRuns: 5000 },
  );
  assert.ok(accepted > 500, `${accepted} were names`);
});

test('every name goes through the header that saves the file, and back', () => {
  fc.assert(
    fc.property(anyName, (text) => {
      let name: string;
      try {
        name = toFileName(text);
      } catch {
        return;
      }
      const header = create(name);
      assert.match(header, /^[\x20-\x7e\xa0-\xff]+$/);
      assert.equal(parse(header).parameters['filename'], name);
    }),
    { numRuns: 2000 },
  );
});
