import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModelError, type ReadOutcome } from '@oselya/collector';
import {
  countReading,
  describePictures,
  describeReading,
  describeReadings,
  describeWritten,
  emptySummary,
} from '../../src/reprocess/summary.ts';

type Read = Extract<ReadOutcome, { outcome: 'read' }>;

const read = (listingId: number, changes: Read['changes']): ReadOutcome => ({
  outcome: 'read',
  listingId,
  rawId: listingId,
  extracted: {} as Read['extracted'],
  changes,
});

const OUTCOMES: readonly ReadOutcome[] = [
  read(1, { rooms: { from: 2, to: 3 }, city: { from: null, to: 'Львів' } }),
  read(2, { rooms: { from: 1, to: 2 } }),
  read(3, {}),
  { outcome: 'not_a_listing', listingId: 4, reason: 'A\nservice.' },
  { outcome: 'failed', listingId: 5, error: new ModelError('MODEL_TRUNCATED', 'Cut off.') },
  { outcome: 'payload_gone', listingId: 6 },
  { outcome: 'in_progress', listingId: 7 },
  { outcome: 'in_progress', listingId: 8 },
];

test('the fields that would change are counted, the most frequent first, and so is what is left alone', () => {
  const summary = emptySummary();
  for (const outcome of OUTCOMES) countReading(summary, outcome);
  assert.deepEqual(describeReadings(summary), [
    '3 listings were read again: 2 would change.',
    '  rooms: 2',
    '  city: 1',
    '  1 are no listings for the model now, and stay as they are',
    '  1 the model failed on',
    '  1 have no payload any more: it was cleaned up',
    '  2 have a payload on its way',
  ]);
});

test('where nothing was found there is one line', () => {
  assert.deepEqual(describeReadings(emptySummary()), [
    '0 listings were read again: 0 would change.',
  ]);
  assert.deepEqual(describeWritten(emptySummary()), ['0 listings were written.']);
});

test('what was written is counted, and what stayed as it was', () => {
  const written = { written: 5, incomplete: 6, changed: 4, queued: 3, kept: 2, failed: 1 };
  assert.deepEqual(describeWritten({ ...emptySummary(), written }), [
    '11 listings were written.',
    '  6 of them the model failed on afterwards: the lines above say why; oselya backfill-embeddings makes their embeddings',
    '  4 have another payload meanwhile, and were left alone',
    '  3 are back in the queue, for a worker',
    '  2 could not be written, and are as they were: the lines above say why',
    '  1 failed: see their payloads, and put them back with the retry',
  ]);
});

test('each change is a line of its own, cut where it is long', () => {
  const long = 'x'.repeat(100);
  assert.deepEqual(
    [read(9, { title: { from: 'two\nlines', to: long } }), ...OUTCOMES.slice(3, 6)].flatMap(
      describeReading,
    ),
    [
      `listing 9: title: "two\\nlines" → "${'x'.repeat(58)}…`,
      'listing 4: no listing: A service.',
      'listing 5: failed: Cut off.',
    ],
  );
});

test('pictures have lines of their own', () => {
  assert.deepEqual(describePictures({ described: 3, left: 0, failed: 2 }), [
    'The pictures of 3 listings were described.',
    '  2 failed, and are as they were: the lines above say why',
  ]);
});
