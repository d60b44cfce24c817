import type { ExtractionOutcome, ImageReprocessOutcome, WriteOutcome } from '@oselya/collector';
import { sanitizeLine } from '../terminal.ts';

const MAX_VALUE_LENGTH = 60;

type ReprocessSummary = {
  read: Record<ExtractionOutcome['outcome'], number>;
  changingCount: number;
  fields: Record<string, number>;
  written: Record<WriteOutcome['outcome'], number>;
};

/** Listing counts by image description outcome. */
export type ImagesSummary = Record<ImageReprocessOutcome['outcome'], number>;

/** Creates a summary whose counts are zero. */
export function createReprocessSummary(): ReprocessSummary {
  return {
    read: { read: 0, payload_gone: 0, in_progress: 0, not_a_listing: 0, failed: 0 },
    changingCount: 0,
    fields: {},
    written: { written: 0, incomplete: 0, changed: 0, queued: 0, kept: 0, failed: 0 },
  };
}

/** Adds an extraction to the counts of a summary. */
export function countExtraction(summary: ReprocessSummary, extraction: ExtractionOutcome): void {
  summary.read[extraction.outcome] += 1;
  if (extraction.outcome !== 'read') return;
  const fields = Object.keys(extraction.changes);
  if (fields.length > 0) summary.changingCount += 1;
  for (const field of fields) summary.fields[field] = (summary.fields[field] ?? 0) + 1;
}

/** Describes each field that would change, or why the model rejected the listing or failed. Otherwise empty. */
export function describeExtraction(extraction: ExtractionOutcome): string[] {
  const { listingId, outcome } = extraction;
  if (outcome === 'not_a_listing') {
    return [`listing ${listingId}: not a listing: ${sanitizeLine(extraction.reason)}`];
  }
  if (outcome !== 'read') return describeFailure(listingId, extraction);
  return Object.entries(extraction.changes).map(
    ([field, { from, to }]) =>
      `listing ${listingId}: ${field}: ${formatValue(from)} → ${formatValue(to)}`,
  );
}

/** Describes the error of a listing, if any. */
export function describeFailure(
  listingId: number,
  result: { outcome: string } | { outcome: string; error: Error },
): string[] {
  if (!('error' in result)) return [];
  return [`listing ${listingId}: ${result.outcome}: ${sanitizeLine(result.error.message)}`];
}

/** Describes the results of all extractions. */
export function describeExtractions({ read, changingCount, fields }: ReprocessSummary): string[] {
  const counts = Object.entries(fields).toSorted(([, one], [, other]) => other - one);
  return [
    `${read.read} listings were read again: ${changingCount} would change.`,
    ...counts.map(([field, count]) => `  ${field}: ${count}`),
    ...describeCounts([
      [read.not_a_listing, 'are not listings for the model now, and stay unchanged'],
      [read.failed, 'failed in the model'],
      [read.payload_gone, 'have no payload any more: it was cleaned up'],
      [read.in_progress, 'have a payload in progress'],
    ]),
  ];
}

/** Describes the results of all writes. */
export function describeWritten({ written }: ReprocessSummary): string[] {
  return [
    `${written.written + written.incomplete} listings were written.`,
    ...describeCounts([
      [
        written.incomplete,
        'of them are incomplete: see the reasons above; oselya backfill-embeddings makes their embeddings',
      ],
      [written.changed, 'have a newer payload, and stay unchanged'],
      [written.queued, 'are back in the queue'],
      [written.kept, 'could not be written, and stay unchanged: see the reasons above'],
      [written.failed, 'failed: see their payloads, and retry them'],
    ]),
  ];
}

/** Describes the results for images. */
export function describeImages({ described, left, failed }: ImagesSummary): string[] {
  return [
    `The images of ${described} listings were described.`,
    ...describeCounts([
      [left, 'have no completed payload, and stay unchanged'],
      [failed, 'failed, and stay unchanged: see the reasons above'],
    ]),
  ];
}

function describeCounts(counts: readonly (readonly [count: number, text: string])[]): string[] {
  return counts.filter(([count]) => count > 0).map(([count, text]) => `  ${count} ${text}`);
}

function formatValue(value: unknown): string {
  const text = sanitizeLine(JSON.stringify(value ?? null));
  return text.length <= MAX_VALUE_LENGTH ? text : `${text.slice(0, MAX_VALUE_LENGTH - 1)}…`;
}
