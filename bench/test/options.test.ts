import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readArguments, UsageError } from '../src/options.ts';

test('without arguments it asks for the list of suites', () => {
  assert.equal(readArguments([]).suite, undefined);
});

test('a suite alone is measured in full, briefly with --smoke, and by the other options', () => {
  const full = { rounds: 3, seconds: 5, connections: 50, smoke: false, out: undefined };
  assert.deepEqual(readArguments(['auth']), { suite: 'auth', options: full });
  const smoke = { rounds: 1, seconds: 0.5, connections: 10, smoke: true, out: undefined };
  assert.deepEqual(readArguments(['auth', '--smoke']).options, smoke);
  const told = ['--rounds', '5', '--seconds=0.25', '--connections', '8', '--out', 'raw.jsonl'];
  assert.deepEqual(readArguments(['auth', ...told]).options, {
    rounds: 5,
    seconds: 0.25,
    connections: 8,
    smoke: false,
    out: 'raw.jsonl',
  });
  assert.equal(readArguments(['soak', '--minutes', '0.5']).options.minutes, 0.5);
});

test('a wrong use is an error of one line', () => {
  const wrong = [
    ['auth', 'chat'],
    ['--smoke'],
    ['auth', '--fast'],
    ['auth', '--rounds'],
    ['auth', '--rounds', '0'],
    ['auth', '--rounds', '1.5'],
    ['auth', '--rounds', '101'],
    ['auth', '--seconds', '-1'],
    ['auth', '--seconds', '1e3'],
    ['auth', '--connections', 'many'],
    ['soak', '--minutes', '0'],
  ];
  for (const args of wrong) {
    assert.throws(
      () => readArguments(args),
      (error) => error instanceof UsageError && !error.message.includes('\n'),
      args.join(' '),
    );
  }
});
