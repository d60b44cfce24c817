import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Sample } from '../../src/pipeline/report.ts';
import { formatReport } from '../../src/pipeline/report.ts';

const options = { rounds: 1, seconds: 1, connections: 1, smoke: false, out: undefined };

const sampleOf = (values: Partial<Sample>): Sample => ({
  variant: 'mock, 4 slots',
  round: 1,
  payloads: 'new',
  completed: 100,
  others: 0,
  seconds: 2,
  busy: 0.97,
  calls: 200,
  images: 0,
  fetched: 0,
  requests: undefined,
  ...values,
});

test('right counts are no failure, and slowness is none either', () => {
  const samples = [sampleOf({ busy: 0.5 }), sampleOf({ payloads: 'unchanged', calls: 0 })];
  const { failures, text } = formatReport(samples, options);
  assert.deepEqual(failures, []);
  assert.match(text, /mock, 4 slots, new +\| +50\.0/);
  assert.match(text, /busy at least 95 % .*not met/);
});

test('slots have to be busy with unchanged listings too', () => {
  const samples = [
    sampleOf({ busy: 0.95 }),
    sampleOf({ payloads: 'unchanged', calls: 0, busy: 0.94 }),
  ];
  const { text } = formatReport(samples, options);
  assert.match(text, /mock, 4 slots, new: busy at least 95 % .* met/);
  assert.match(text, /mock, 4 slots, unchanged: busy at least 95 % .* not met/);
  assert.doesNotMatch(formatReport(samples, { ...options, smoke: true }).text, /busy at least/);
});

test('each image of a new listing may cost a call, and is fetched once', () => {
  const withImages = { variant: 'mock, 4 slots, 3 images', images: 3 };
  const right = [
    sampleOf({ ...withImages, calls: 500, fetched: 300 }),
    sampleOf({ ...withImages, payloads: 'unchanged', calls: 0 }),
  ];
  const { failures, text } = formatReport(right, options);
  assert.deepEqual(failures, []);
  assert.match(text, /at most 2 calls for a new listing, plus one for each image \| +2\.00 \| met/);
  const wrong = [
    sampleOf({ ...withImages, calls: 501, fetched: 301 }),
    sampleOf({ ...withImages, payloads: 'unchanged', calls: 0, fetched: 1 }),
  ];
  assert.deepEqual(formatReport(wrong, options).failures, [
    'mock, 4 slots, 3 images, new: 5.01 calls for each listing, 5 expected',
    'mock, 4 slots, 3 images, new: 301 images were fetched, 300 expected',
    'mock, 4 slots, 3 images, unchanged: 1 images were fetched, 0 expected',
  ]);
});

test('jobs that did not complete, and calls too many, are failures', () => {
  const requests = { chat: 1, embed: 0, mostTexts: 1 };
  const samples = [
    sampleOf({ completed: 98, others: 2, calls: 201 }),
    sampleOf({ payloads: 'unchanged', calls: 1, requests }),
  ];
  assert.deepEqual(formatReport(samples, options).failures, [
    'mock, 4 slots, new: 2 jobs did not complete',
    'mock, 4 slots, new: 2.01 calls for each listing, 2 expected',
    'mock, 4 slots, unchanged: 0.01 calls for each listing, 0 expected',
    'mock, 4 slots, unchanged: unchanged listings came to the model server',
  ]);
});
