import assert from 'node:assert/strict';
import { test } from 'node:test';
import { interpolate } from '../../src/import/interpolate.ts';

for (const [written, text, ...unknown] of [
  ['8080:80', '8080:80'],
  ['', ''],
  // Defaults, also within others; a plain brace closes nothing but the variable.
  ['${PORT:-8080}:80', '8080:80'],
  ['${PORT-8080}:80', '8080:80'],
  ['${A:-${B:-90}}:80', '90:80'],
  ['${A:-${B-${C:-91}}0}:80', '910:80'],
  ['${A:-1}${B:-2}:${C:-3}', '12:3'],
  ['${A:-}x', 'x'],
  ['${A:-/a:-b?c+d}', '/a:-b?c+d'],
  ['${A:-a}}', 'a}'],
  // Without a default nobody knows what they are.
  ['$PORT:80', '${PORT}:80', 'PORT'],
  ['${PORT}:80', '${PORT}:80', 'PORT'],
  ['${PORT:?give one}:80', '${PORT}:80', 'PORT'],
  ['${PORT?a ${B} $C}:80', '${PORT}:80', 'PORT'],
  ['${A:-$B}:${B}', '${B}:${B}', 'B', 'B'],
  ['$FOO-bar$_b2', '${FOO}-bar${_b2}', 'FOO', '_b2'],
  // What stands in place of a variable that is set stands for nothing where none is.
  ['${A:+127.0.0.1:}80:80', '80:80'],
  ['${A+$B}80', '80'],
  ['${A:-x${B:+${C}}y$D}', 'xy${D}', 'D'],
  // A dollar sign of its own, and what Compose has no meaning for.
  ['$$PORT:80', '$PORT:80'],
  ['$${PORT:-1}', '${PORT:-1}'],
  ['${A:-$$}', '$'],
  ['$$$A', '$${A}', 'A'],
  ['$1 $ $}', '$1 $ $}'],
  ['${}${ A}${A }${A!}${1:-2}', '${}${ A}${A }${A!}${1:-2}'],
  ['${A/b/c}', '${A/b/c}'],
  ['${A:80', '${A:80'],
  ['${A', '${A'],
  ['1${A:-2', '1${A:-2'],
  ['${A:-${B:-3}', '${A:-3'],
  ['${A:+${B:-3}', '${A:+3'],
  ['${A:?$B', '${A:?${B}', 'B'],
  ['$', '$'],
] as const) {
  test(`interpolation of ${JSON.stringify(written)}`, () => {
    assert.deepEqual(interpolate(written), { text, unknown });
  });
}

test(
  'a text takes no more than its length, however deep variables stand in one another',
  {
    timeout: 60_000,
  },
  () => {
    const depth = 500_000;
    const deep = interpolate(`${'${A:-'.repeat(depth)}80${'}'.repeat(depth)}`);
    assert.deepEqual(deep, { text: '80', unknown: [] });
    const open = '${A:-'.repeat(depth);
    assert.deepEqual(interpolate(open), { text: open, unknown: [] });
    assert.equal(interpolate('$A'.repeat(depth)).unknown.length, depth);
  },
);
