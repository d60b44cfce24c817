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

/** Number of consecutive failures after which a load ends. */
const MAX_FAILED_IN_ROW = 5;

/** Maximum number of reported bad records. Further records are counted. */
const MAX_REPORTED_ROWS = 100;

/** Numbers of records by result. */
export type LoadCounts = {
  read: number;
  accepted: number;
  /** Records that an earlier run stored. */
  known: number;
  /** Records that an earlier run stored, with the status `failed` or `invalid`. */
  unprocessed: number;
  /** Records that are not valid payloads. */
  rejected: number;
  /** Records that could not be sent after all retries. */
  failed: number;
};

/** Result of a load. */
export type LoadReport = {
  counts: LoadCounts;
  /** Whether the load ended after too many consecutive failures. */
  hasGivenUp: boolean;
};

/** Creates an empty report. */
export function createLoadReport(): LoadReport {
  return {
    counts: { read: 0, accepted: 0, known: 0, unprocessed: 0, rejected: 0, failed: 0 },
    hasGivenUp: false,
  };
}

/** Options of a load. */
export type LoadOptions = {
  toPayload: ReturnType<typeof createPayloadConverter>;
  deliver: (payload: object, idempotencyKey: string, signal: AbortSignal) => Promise<Delivery>;
  /** Checks records without sending them. */
  dryRun: boolean;
  /** Prefix of the idempotency keys of this load. */
  keyPrefix: string;
  rejectedFile: RejectedFile | undefined;
  signal: AbortSignal;
  /** Aborted if the load ends early. The abort also ends a pending read of the input. */
  stopReading: AbortController;
  /** Called for each bad record with a description. */
  onBadRow: (line: string) => void;
  /** @param end Length of the text up to the last record, in UTF-8 bytes. */
  onProgress: (counts: Readonly<LoadCounts>, end: number) => void;
};

/**
 * Checks the records of a file and sends several at once. Records of one listing are sent one after another,
 * because the last record determines the listing. An idempotency key contains the prefix, the position and the
 * content of a record, so a repeated load stores no duplicates.
 * @param report Updated during the load. Valid even if `loadRecords` throws.
 * @throws CommandError for a response that applies to every record, AbortError if the signal aborts.
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
  // The first failure may have caused the other failures.
  if (failures.length > 0 && !report.hasGivenUp) throw failures[0];
}

/** Describes the invalid parts of a payload in one line. Undefined for valid payloads. */
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

/** File of bad records. */
export type RejectedFile = {
  /** @throws CommandError if it cannot be written. */
  add(row: Row, reason: string): Promise<void>;
  /** Waits until everything is written. @throws CommandError if a write failed. */
  end(): Promise<void>;
};

/**
 * Creates a file of bad records: JSON Lines of `line`, `reason` and `record`. `record` is the record or the
 * beginning of the invalid text.
 * @throws CommandError if it cannot be written.
 */
export async function openRejectedFile(path: string): Promise<RejectedFile> {
  const unwritable = (cause: unknown) =>
    new CommandError(`${path} cannot be written: ${(cause as Error).message}`, { cause });
  const file = createWriteStream(path);
  // The next `add` or `end` reports the error.
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
