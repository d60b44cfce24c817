import type { Described, ReadOutcome, WriteOutcome } from '@oselya/collector';
import { oneLine } from '../terminal.ts';

/** A value in a line of changes has so many characters at most. */
const LONGEST_VALUE = 60;

/** What a run has found and done so far. */
export type Summary = {
  read: Record<ReadOutcome['outcome'], number>;
  /** Listings of which something would change. */
  changing: number;
  /** In how many listings each field would change. */
  fields: Record<string, number>;
  written: Record<WriteOutcome['outcome'], number>;
};

/** A summary before anything is read. */
export function emptySummary(): Summary {
  return {
    read: { read: 0, payload_gone: 0, in_progress: 0, not_a_listing: 0, failed: 0 },
    changing: 0,
    fields: {},
    written: { written: 0, incomplete: 0, changed: 0, queued: 0, kept: 0, failed: 0 },
  };
}

/** Counts a reading. */
export function countReading(summary: Summary, reading: ReadOutcome): void {
  summary.read[reading.outcome] += 1;
  if (reading.outcome !== 'read') return;
  const fields = Object.keys(reading.changes);
  if (fields.length > 0) summary.changing += 1;
  for (const field of fields) summary.fields[field] = (summary.fields[field] ?? 0) + 1;
}

/** A reading in detail: a line for each field that would change, or why the listing stays as it is. */
export function describeReading(reading: ReadOutcome): string[] {
  const name = `listing ${reading.listingId}`;
  if (reading.outcome === 'not_a_listing')
    return [`${name}: no listing: ${oneLine(reading.reason)}`];
  if (reading.outcome === 'failed') return describeFailure(reading.listingId, reading);
  if (reading.outcome !== 'read') return [];
  return Object.entries(reading.changes).map(
    ([field, { from, to }]) => `${name}: ${field}: ${show(from)} → ${show(to)}`,
  );
}

/** What a listing failed on, as a line for a terminal; none where it did not. */
export function describeFailure(
  listingId: number,
  result: { outcome: string } | { outcome: string; error: Error },
): string[] {
  if (!('error' in result)) return [];
  return [`listing ${listingId}: ${result.outcome}: ${oneLine(result.error.message)}`];
}

/** What was read, as lines for a terminal. */
export function describeReadings({ read, changing, fields }: Summary): string[] {
  const rows = Object.entries(fields).toSorted(([, one], [, other]) => other - one);
  return [
    `${read.read} listings were read again: ${changing} would change.`,
    ...rows.map(([field, listings]) => `  ${field}: ${listings}`),
    ...some(read.not_a_listing, 'are no listings for the model now, and stay as they are'),
    ...some(read.failed, 'the model failed on'),
    ...some(read.payload_gone, 'have no payload any more: it was cleaned up'),
    ...some(read.in_progress, 'have a payload on its way'),
  ];
}

/** What was written, as lines for a terminal. */
export function describeWritten({ written }: Summary): string[] {
  return [
    `${written.written + written.incomplete} listings were written.`,
    ...some(
      written.incomplete,
      'of them the model failed on afterwards: the lines above say why; oselya backfill-embeddings makes their embeddings',
    ),
    ...some(written.changed, 'have another payload meanwhile, and were left alone'),
    ...some(written.queued, 'are back in the queue, for a worker'),
    ...some(written.kept, 'could not be written, and are as they were: the lines above say why'),
    ...some(written.failed, 'failed: see their payloads, and put them back with the retry'),
  ];
}

/** What became of listings whose pictures were to be described again. */
export type PicturesSummary = Record<Described['outcome'], number>;

/** What was described, as lines for a terminal. */
export function describePictures({ described, left, failed }: PicturesSummary): string[] {
  return [
    `The pictures of ${described} listings were described.`,
    ...some(left, 'have no payload that is completed, and were left alone'),
    ...some(failed, 'failed, and are as they were: the lines above say why'),
  ];
}

function some(count: number, what: string): string[] {
  return count === 0 ? [] : [`  ${count} ${what}`];
}

function show(value: unknown): string {
  const text = oneLine(JSON.stringify(value ?? null));
  return text.length <= LONGEST_VALUE ? text : `${text.slice(0, LONGEST_VALUE - 1)}…`;
}
