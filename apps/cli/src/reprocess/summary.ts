import type { ImageReprocessOutcome, ExtractionOutcome, WriteOutcome } from '@oselya/collector';
import { oneLine } from '../terminal.ts';

const MAX_VALUE_LENGTH = 60;

/** Results of a run so far. */
export type ReprocessSummary = {
  read: Record<ExtractionOutcome['outcome'], number>;
  /** Number of listings that would change. */
  changing: number;
  /** Number of listings that would change, by field. */
  fields: Record<string, number>;
  written: Record<WriteOutcome['outcome'], number>;
};

/** Numbers of listings by outcome of describing their images. */
export type ImagesSummary = Record<ImageReprocessOutcome['outcome'], number>;

/** Creates an empty summary. */
export function createReprocessSummary(): ReprocessSummary {
  return {
    read: { read: 0, payload_gone: 0, in_progress: 0, not_a_listing: 0, failed: 0 },
    changing: 0,
    fields: {},
    written: { written: 0, incomplete: 0, changed: 0, queued: 0, kept: 0, failed: 0 },
  };
}

/** Adds an extraction to the summary. */
export function countExtraction(summary: ReprocessSummary, reading: ExtractionOutcome): void {
  summary.read[reading.outcome] += 1;
  if (reading.outcome !== 'read') return;
  const fields = Object.keys(reading.changes);
  if (fields.length > 0) summary.changing += 1;
  for (const field of fields) summary.fields[field] = (summary.fields[field] ?? 0) + 1;
}

/** Describes each field that would change, or the reason why the listing stays unchanged. */
export function describeExtraction(reading: ExtractionOutcome): string[] {
  const name = `listing ${reading.listingId}`;
  if (reading.outcome === 'not_a_listing') {
    return [`${name}: not a listing: ${oneLine(reading.reason)}`];
  }
  if (reading.outcome === 'failed') return describeFailure(reading.listingId, reading);
  if (reading.outcome !== 'read') return [];
  return Object.entries(reading.changes).map(
    ([field, { from, to }]) => `${name}: ${field}: ${show(from)} → ${show(to)}`,
  );
}

/** Describes the failure of a listing, if any. */
export function describeFailure(
  listingId: number,
  result: { outcome: string } | { outcome: string; error: Error },
): string[] {
  if (!('error' in result)) return [];
  return [`listing ${listingId}: ${result.outcome}: ${oneLine(result.error.message)}`];
}

/** Describes the results of all extractions. */
export function describeExtractions({ read, changing, fields }: ReprocessSummary): string[] {
  const rows = Object.entries(fields).toSorted(([, one], [, other]) => other - one);
  return [
    `${read.read} listings were read again: ${changing} would change.`,
    ...rows.map(([field, listings]) => `  ${field}: ${listings}`),
    ...some(read.not_a_listing, 'are not listings for the model now, and stay unchanged'),
    ...some(read.failed, 'failed in the model'),
    ...some(read.payload_gone, 'have no payload any more: it was cleaned up'),
    ...some(read.in_progress, 'have a payload in progress'),
  ];
}

/** Describes the results of all writes. */
export function describeWritten({ written }: ReprocessSummary): string[] {
  return [
    `${written.written + written.incomplete} listings were written.`,
    ...some(
      written.incomplete,
      'of them are incomplete: see the reasons above; oselya backfill-embeddings makes their embeddings',
    ),
    ...some(written.changed, 'have a newer payload, and stay unchanged'),
    ...some(written.queued, 'are back in the queue'),
    ...some(written.kept, 'could not be written, and stay unchanged: see the reasons above'),
    ...some(written.failed, 'failed: see their payloads, and retry them'),
  ];
}

/** Describes the results for images. */
export function describeImages({ described, left, failed }: ImagesSummary): string[] {
  return [
    `The images of ${described} listings were described.`,
    ...some(left, 'have no completed payload, and stay unchanged'),
    ...some(failed, 'failed, and stay unchanged: see the reasons above'),
  ];
}

function some(count: number, what: string): string[] {
  return count === 0 ? [] : [`  ${count} ${what}`];
}

function show(value: unknown): string {
  const text = oneLine(JSON.stringify(value ?? null));
  return text.length <= MAX_VALUE_LENGTH ? text : `${text.slice(0, MAX_VALUE_LENGTH - 1)}…`;
}
