import { hash } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';
import { checkPayload } from '@oselya/collector/payload';
import { CommandError } from '../command.ts';
import { oneLine } from '../terminal.ts';
import type { Delivery } from './deliver.ts';
import { getFormatAdvice, type createPayloadConverter } from './payload.ts';
import type { GoodRow, Row } from './row.ts';

const MAX_PARALLEL_REQUESTS = 8;

/** After that many failures in a row the collector counts as gone. */
const MAX_FAILED_IN_ROW = 5;

/** Further bad records are only counted. */
const MAX_REPORTED_ROWS = 100;

/** The numbers of records by result. */
export type LoadCounts = {
  read: number;
  accepted: number;
  /** Stored by an earlier run. */
  known: number;
  /** Stored by an earlier run, and ended `failed` or `invalid`. */
  unprocessed: number;
  /** Not a valid payload. */
  rejected: number;
  /** Not sent in spite of retries. */
  failed: number;
};

/** The result of a load. */
export type LoadReport = {
  counts: LoadCounts;
  /** Whether too many failures in a row ended it early. */
  hasGivenUp: boolean;
};

/** Creates an empty report. */
export function createLoadReport(): LoadReport {
  return {
    counts: { read: 0, accepted: 0, known: 0, unprocessed: 0, rejected: 0, failed: 0 },
    hasGivenUp: false,
  };
}

/** How to send records. */
export type LoadOptions = {
  toPayload: ReturnType<typeof createPayloadConverter>;
  deliver: (payload: object, idempotencyKey: string, signal: AbortSignal) => Promise<Delivery>;
  /** Checks records without sending them. */
  dryRun: boolean;
  /** Distinguishes the idempotency keys of this load from those of others. */
  keyPrefix: string;
  rejectedFile: RejectedFile | undefined;
  signal: AbortSignal;
  /** Aborted when nothing more can be sent, which also ends a read that waits for more input. */
  stopReading: AbortController;
  /** Called with a line for each bad record. */
  onBadRow: (line: string) => void;
  /** @param end The length of the text up to the last record, in bytes of UTF-8. */
  onProgress: (counts: Readonly<LoadCounts>, end: number) => void;
};

/**
 * Checks the records of a file and sends several at once. Records of one listing are sent one after another,
 * because the last one determines it. A record's idempotency key is made of the prefix, its place and its
 * content, so a repeated load stores nothing twice.
 * @param report Filled during the load, and valid also when this throws.
 * @throws CommandError for an answer that every record would get; AbortError.
 */
export async function loadRecords(
  rows: AsyncIterable<Row>,
  options: LoadOptions,
  report: LoadReport,
): Promise<void> {
  const { toPayload, dryRun, keyPrefix, rejectedFile, stopReading, onBadRow, onProgress } = options;
  const { counts } = report;
  const signal = AbortSignal.any([options.signal, stopReading.signal]);
  const sending = new Map<string, Promise<void>>();
  const failures: unknown[] = [];
  let reported = 0;
  let failedInRow = 0;

  async function addBad(
    row: Row,
    reason: string,
    outcome: 'unprocessed' | 'rejected' | 'failed',
  ): Promise<void> {
    counts[outcome] += 1;
    reported += 1;
    if (reported <= MAX_REPORTED_ROWS) onBadRow(oneLine(`${formatPlace(row)}: ${reason}`));
    if (reported === MAX_REPORTED_ROWS) {
      onBadRow('… further ones are only counted; --rejected keeps all of them');
    }
    await rejectedFile?.add(row, reason);
  }

  async function send(row: GoodRow, payload: object): Promise<void> {
    const content = hash('sha256', JSON.stringify(payload));
    const key = `${keyPrefix}-${row.index ?? row.line}-${content}`;
    const delivery = await options.deliver(payload, key, signal);
    failedInRow = delivery.outcome === 'failed' ? failedInRow + 1 : 0;
    if ('reason' in delivery) await addBad(row, delivery.reason, delivery.outcome);
    else counts[delivery.outcome] += 1;
    if (failedInRow === MAX_FAILED_IN_ROW) {
      report.hasGivenUp = true;
      stopReading.abort();
    }
    onProgress(counts, row.end);
  }

  async function enqueue(row: GoodRow, payload: Record<string, unknown>): Promise<void> {
    const listing = String(payload['external_id']);
    await sending.get(listing);
    const one = send(row, payload)
      .catch((error: unknown) => {
        failures.push(error);
        stopReading.abort();
      })
      .finally(() => sending.delete(listing));
    sending.set(listing, one);
    if (sending.size >= MAX_PARALLEL_REQUESTS) await Promise.race(sending.values());
  }

  try {
    for await (const row of rows) {
      signal.throwIfAborted();
      counts.read += 1;
      const made = 'fields' in row ? toPayload(row.fields) : row;
      const reason = 'reason' in made ? made.reason : describeFaults(made.payload);
      if (reason !== undefined) await addBad(row, reason, 'rejected');
      else if (!dryRun && 'fields' in row && 'payload' in made) await enqueue(row, made.payload);
      onProgress(counts, row.end);
    }
  } catch (error) {
    failures.push(error);
  }
  await Promise.all(sending.values());
  // The first failure may have caused the others.
  if (failures.length > 0 && !report.hasGivenUp) throw failures[0];
}

/** Returns what the collector would reject in a payload, in one line. */
function describeFaults(payload: Record<string, unknown>): string | undefined {
  const faults = checkPayload(payload).map(({ path, message }) => {
    const field = path.replace(/^body\/?/, '');
    const advice = getFormatAdvice(field, payload[field]);
    return `${field} ${message}${advice === undefined ? '' : ` (${advice})`}`.trim();
  });
  return faults.length === 0 ? undefined : faults.join('; ');
}

function formatPlace({ line, index }: Row): string {
  return index === undefined ? `line ${line}` : `record ${index} (line ${line})`;
}

/** A file of bad records, to be corrected. */
export type RejectedFile = {
  /** @throws CommandError if it cannot be written. */
  add(row: Row, reason: string): Promise<void>;
  /** Waits until everything is written. @throws CommandError if it cannot be. */
  end(): Promise<void>;
};

/**
 * Opens a new file of bad records: JSON Lines of `line`, `reason` and `record`, which is the record or the
 * beginning of the text in its place.
 * @throws CommandError if it cannot be written.
 */
export async function openRejectedFile(path: string): Promise<RejectedFile> {
  const unwritable = (cause: unknown) =>
    new CommandError(`${path} cannot be written: ${(cause as Error).message}`, { cause });
  const file = createWriteStream(path);
  // The next `add` or `end` reports it.
  file.on('error', () => undefined);
  await once(file, 'open').catch((cause: unknown) => {
    throw unwritable(cause);
  });
  return {
    async add(row, reason) {
      const record = 'fields' in row ? row.fields : row.found;
      const isFull = !file.write(`${JSON.stringify({ line: row.line, reason, record })}\n`);
      if (isFull && file.errored === null) await once(file, 'drain').catch(() => undefined);
      if (file.errored !== null) throw unwritable(file.errored);
    },
    async end() {
      file.end();
      await finished(file).catch((cause: unknown) => {
        throw unwritable(cause);
      });
    },
  };
}
