import { hash } from 'node:crypto';
import { appendFileSync, closeSync, openSync } from 'node:fs';
import { checkPayload } from '@oselya/collector/payload';
import { createFileError } from '../command.ts';
import { sanitizeLine } from '../terminal.ts';
import type { DeliverPayload } from './deliver.ts';
import { type createPayloadConverter, getFormatAdvice } from './payload.ts';
import type { GoodRow, Row } from './row.ts';

const MAX_PARALLEL_REQUESTS = 8;

/** Number of consecutive failures after which a load ends. */
const MAX_CONSECUTIVE_FAILURES = 5;

/** Maximum number of bad records to print. The counts and the rejected file include all of them. */
const MAX_REPORTED_ROWS = 100;

export type LoadCounts = {
  read: number;
  accepted: number;
  /** Records that an earlier run or attempt stored. */
  known: number;
  /** Records that an earlier run or attempt stored, with the status `failed` or `invalid`. */
  unprocessed: number;
  rejected: number;
  /** Records that could not be sent after all retries. */
  failed: number;
};

export type LoadResult = {
  counts: LoadCounts;
  /** Whether the load ended after too many consecutive failures. */
  hasGivenUp: boolean;
  /** First error, which may have caused later errors. Undefined without errors, and if `hasGivenUp`. */
  error: unknown;
};

type LoadOptions = {
  toPayload: ReturnType<typeof createPayloadConverter>;
  deliver: DeliverPayload;
  dryRun: boolean;
  keyPrefix: string;
  rejectedFile: RejectedFile | undefined;
  signal: AbortSignal;
  /** Aborted when the load ends. The abort also ends a pending read of the input. */
  readController: AbortController;
  onBadRow: (description: string) => void;
  /** @param end Length of the text up to the end of the last record, in UTF-8 bytes. */
  onProgress: (records: number, end: number) => void;
};

/**
 * Checks the records of a file and, unless `dryRun`, sends several concurrently. Records of one listing are sent one
 * after another, because the last record determines the listing. An idempotency key contains the prefix, the position
 * and the content of a record, so a repeated load stores no duplicates. Never throws.
 */
export async function loadRecords(
  rows: AsyncIterable<Row>,
  options: LoadOptions,
): Promise<LoadResult> {
  const { toPayload, deliver, dryRun, keyPrefix, rejectedFile, readController } = options;
  const counts = { read: 0, accepted: 0, known: 0, unprocessed: 0, rejected: 0, failed: 0 };
  const signal = AbortSignal.any([options.signal, readController.signal]);
  const deliveries = new Map<string, Promise<void>>();
  const errors: unknown[] = [];
  let reportedCount = 0;
  let consecutiveFailures = 0;
  let hasGivenUp = false;

  function addBadRow(
    row: Row,
    reason: string,
    outcome: 'unprocessed' | 'rejected' | 'failed',
  ): void {
    counts[outcome] += 1;
    reportedCount += 1;
    if (reportedCount <= MAX_REPORTED_ROWS) {
      options.onBadRow(sanitizeLine(`${formatPosition(row)}: ${reason}`));
    }
    if (reportedCount === MAX_REPORTED_ROWS) {
      options.onBadRow('… further ones are only counted; --rejected keeps all of them');
    }
    rejectedFile?.add(row, reason);
  }

  async function send(row: GoodRow, payload: object): Promise<void> {
    const content = hash('sha256', JSON.stringify(payload));
    const key = `${keyPrefix}-${row.index ?? row.line}-${content}`;
    const delivery = await deliver(payload, key, signal);
    consecutiveFailures = delivery.outcome === 'failed' ? consecutiveFailures + 1 : 0;
    if ('reason' in delivery) addBadRow(row, delivery.reason, delivery.outcome);
    else counts[delivery.outcome] += 1;
    if (consecutiveFailures === MAX_CONSECUTIVE_FAILURES && errors.length === 0) {
      hasGivenUp = true;
      readController.abort();
    }
    options.onProgress(counts.read, row.end);
  }

  async function enqueue(row: GoodRow, payload: Record<string, unknown>): Promise<void> {
    const externalId = String(payload['external_id']);
    await deliveries.get(externalId);
    const delivery = send(row, payload)
      .catch((error: unknown) => {
        errors.push(error);
        readController.abort();
      })
      .finally(() => deliveries.delete(externalId));
    deliveries.set(externalId, delivery);
    if (deliveries.size >= MAX_PARALLEL_REQUESTS) await Promise.race(deliveries.values());
  }

  try {
    for await (const row of rows) {
      signal.throwIfAborted();
      counts.read += 1;
      const result = 'fields' in row ? toPayload(row.fields) : row;
      const reason = 'reason' in result ? result.reason : describeViolations(result.payload);
      if (reason !== undefined) addBadRow(row, reason, 'rejected');
      else if (!dryRun && 'fields' in row && 'payload' in result) {
        await enqueue(row, result.payload);
      }
      options.onProgress(counts.read, row.end);
    }
  } catch (error) {
    // Earlier records are valid, so their deliveries continue.
    errors.push(error);
  }
  await Promise.all(deliveries.values());
  readController.abort();
  return { counts, hasGivenUp, error: hasGivenUp ? undefined : errors[0] };
}

/** Describes the invalid parts of a payload in one line. Returns undefined for valid payloads. */
function describeViolations(payload: Record<string, unknown>): string | undefined {
  const violations = checkPayload(payload).map(({ path, message }) => {
    const field = path.replace(/^body\/?/, '');
    const advice = getFormatAdvice(field, payload[field]);
    return `${field} ${message}${advice === undefined ? '' : ` (${advice})`}`.trim();
  });
  return violations.length === 0 ? undefined : violations.join('; ');
}

function formatPosition({ line, index }: Row): string {
  return index === undefined ? `line ${line}` : `record ${index} (line ${line})`;
}

type RejectedFile = ReturnType<typeof openRejectedFile>;

/**
 * Creates a file of bad records: JSON Lines with `line`, `reason` and `record`. `record` is the record or the beginning
 * of the invalid text. The function and all methods throw a CommandError if the file cannot be written.
 */
export function openRejectedFile(path: string) {
  function write<Result>(work: () => Result): Result {
    try {
      return work();
    } catch (cause) {
      throw createFileError(path, 'written', cause);
    }
  }
  const file = write(() => openSync(path, 'w'));
  return {
    add(row: Row, reason: string): void {
      const record = 'fields' in row ? row.fields : row.text;
      const line = JSON.stringify({ line: row.line, reason, record });
      write(() => appendFileSync(file, `${line}\n`));
    },
    close: () => write(() => closeSync(file)),
  };
}
