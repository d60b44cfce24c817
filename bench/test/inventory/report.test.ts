import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatReport } from '../../src/inventory/report.ts';
import type { Sample } from '../../src/inventory/sample.ts';
import { jsonParse, lint, oselya } from '../../src/inventory/variants.ts';

const options = { rounds: 2, seconds: 1, connections: 1, smoke: false, out: undefined };
const valid = { records: 1000, faulty: 0, format: 'json' } as const;

const sampleOf = (values: Partial<Sample>): Sample => ({
  variant: oselya.name,
  round: 1,
  document: valid,
  megabytes: 1,
  exitStatus: 0,
  wallMs: 1000,
  usage: { cpuMs: 900, peakMB: 100 },
  errors: 0,
  ...values,
});
const yardstick = (round: number, wallMs: number) =>
  sampleOf({ variant: jsonParse.name, round, wallMs });
/** `lint` and `validate` of the smaller document, in the first round. */
const small = { ...valid, records: 100 };
const lintPair = (cpuMs: number) => [
  sampleOf({ document: small, usage: { cpuMs: 100, peakMB: 100 } }),
  sampleOf({ document: small, variant: lint.name, usage: { cpuMs, peakMB: 100 } }),
];

test('time is judged round by round, memory by the highest of all', () => {
  const samples = [
    sampleOf({ wallMs: 1200 }),
    yardstick(1, 1000),
    yardstick(2, 4000),
    sampleOf({ round: 2, wallMs: 4800 }),
    ...lintPair(140),
  ];
  const { text, failures } = formatReport(samples, options);
  assert.deepEqual(failures, []);
  assert.match(text, /1\.3 × the time of JSON\.parse +\| 1\.20 \(1\.20–1\.20\) \| +met/);
  assert.match(text, /100,000 records +\| 1\.40 \(1\.40–1\.40\) \| +met/);
  assert.match(text, /150 MB, whatever the size +\| +100 MB \| +met/);
  const larger = sampleOf({
    document: { records: 9, faulty: 0, format: 'jsonl' },
    usage: { cpuMs: 1, peakMB: 151 },
  });
  assert.match(formatReport([...samples, larger], options).text, /151 MB \| not met/);
});

test('a wrong finding or exit status fails the run, slowness never', () => {
  const samples = [sampleOf({ wallMs: 9000 }), yardstick(1, 1000), ...lintPair(160)];
  assert.match(formatReport(samples, options).text, /100,000 records +\| 1\.60 .+not met/);
  assert.deepEqual(formatReport(samples, options).failures, []);
  const wrong = [
    sampleOf({ difference: 'expected one' }),
    sampleOf({ document: { ...valid, faulty: 1 }, exitStatus: 0 }),
    yardstick(1, 1),
    ...lintPair(1),
  ];
  assert.deepEqual(formatReport(wrong, options).failures, [
    'oselya inventory validate, 1,000 records, valid: expected one',
    'oselya inventory validate, 1,000 records, 100 % invalid: exit status 0, expected 1',
  ]);
});

test('a peer that crashed is reported as such', () => {
  const peer = sampleOf({ variant: 'peer', exitStatus: null, usage: undefined });
  const { text, failures } = formatReport(
    [sampleOf({}), yardstick(1, 1000), ...lintPair(1), peer],
    options,
  );
  assert.match(text, /MB: peer +\|.+broke down/);
  assert.deepEqual(failures, []);
});
