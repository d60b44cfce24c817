import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseLocated } from '../../src/json/located-parser.ts';
import { JsonSyntaxError } from '../../src/json/syntax-error.ts';
import { almostJson } from '../support/almost-json.ts';
import { placeAt } from '../support/findings.ts';

const CONTEXT = {
  start: { line: 1, column: 1 },
  what: 'file',
  enclosing: [],
  isCut: false,
} as const;

function outcome(run: () => unknown): 'taken' | 'refused' {
  try {
    run();
    return 'taken';
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof JsonSyntaxError) return 'refused';
    throw error;
  }
}

test('it refuses exactly what JSON.parse refuses', () => {
  let taken = 0;
  const runs = 5_000;
  fc.assert(
    fc.property(almostJson(fc.jsonValue()), (text) => {
      const expected = outcome(() => JSON.parse(text));
      if (expected === 'taken') taken += 1;
      assert.equal(
        outcome(() => parseLocated(text, CONTEXT)),
        expected,
      );
    }),
    { numRuns: runs },
  );
  assert.ok(taken > runs / 10 && taken < runs * 0.9, `${taken} of ${runs} texts were JSON`);
});

test('members and repeated keys stand where they are written', () => {
  const space = fc.stringMatching(/^[ \n\t\r]{0,3}$/);
  const member = fc.tuple(space, fc.string({ unit: 'grapheme' }), space, fc.jsonValue(), space);
  fc.assert(
    fc.property(fc.array(member), fc.stringMatching(/^[ \n]{0,5}$/), (members, indent) => {
      let text = `${indent}{`;
      const places = new Map<string, { line: number; column: number }>();
      const repeated: object[] = [];
      const firsts = new Map<string, object>();
      for (const [index, [a, key, b, value, c]] of members.entries()) {
        text += `${index === 0 ? '' : ','}${a}`;
        const keyPlace = placeAt(text, text.length);
        const first = firsts.get(key);
        if (first === undefined) firsts.set(key, keyPlace);
        else repeated.push({ key, first, again: keyPlace });
        text += `${escaped(key)}${b}:${c}`;
        places.set(key, placeAt(text, text.length));
        text += `${JSON.stringify(value)}${a}`;
      }
      const located = parseLocated(`${text}}`, CONTEXT);
      assert.deepEqual(
        [...located.members].map(([key, { start }]) => [key, plain(start)]),
        [...places],
      );
      assert.deepEqual(
        located.duplicates
          .filter(({ path }) => path.length === 1)
          .map(({ key, first, again }) => ({ key, first: plain(first), again: plain(again) })),
        repeated,
      );
    }),
  );
});

/** A string as JSON in which each second character is written as an escape. */
function escaped(text: string): string {
  const units = text.split('').map((unit, index) => {
    const code = unit.charCodeAt(0);
    const isSurrogate = code >= 0xd800 && code <= 0xdfff;
    if (index % 2 === 0 && !isSurrogate) return JSON.stringify(unit).slice(1, -1);
    return `\\u${code.toString(16).padStart(4, '0')}`;
  });
  return `"${units.join('')}"`;
}

function plain({ line, column }: { line: number; column: number }) {
  return { line, column };
}
