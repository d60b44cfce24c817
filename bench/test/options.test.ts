import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readArguments, UsageError } from '../src/options.ts';

test('no arguments select the list of suites', () => {
  assert.equal(readArguments([]).suite, undefined);
});

test('a suite has default options, which --smoke and the other options change', () => {
  const full = { rounds: 3, seconds: 5, connections: 50, isSmokeRun: false, out: undefined };
  assert.deepEqual(readArguments(['auth']), { suite: 'auth', options: full });
  const smoke = { rounds: 1, seconds: 0.5, connections: 10, isSmokeRun: true, out: undefined };
  assert.deepEqual(readArguments(['auth', '--smoke']).options, smoke);
  const cliArguments = [
    '--rounds',
    '5',
    '--seconds=0.25',
    '--connections',
    '8',
    '--out',
    'raw.jsonl',
  ];
  assert.deepEqual(readArguments(['auth', ...cliArguments]).options, {
    rounds: 5,
    seconds: 0.25,
    connections: 8,
    isSmokeRun: false,
    out: 'raw.jsonl',
  });
  assert.equal(readArguments(['soak', '--minutes', '0.5']).options.minutes, 0.5);
});

test('invalid arguments are errors of one line', () => {
  const invalidArguments = [
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
  for (const args of invalidArguments) {
    assert.throws(
      () => readArguments(args),
      (error) => error instanceof UsageError && !error.message.includes('\n'),
      args.join(' '),
    );
  }
});
