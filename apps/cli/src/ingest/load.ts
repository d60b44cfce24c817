import { checkPayload } from '@oselya/collector/payload';
import { oneLine } from '../terminal.ts';
import type { Delivery } from './deliver.ts';
import { recordKey } from './record-key.ts';
import type { Rejected } from './rejected.ts';
import { type GoodRow, placeOf, type Row } from './row.ts';
import { createSender } from './sender.ts';
import { type Counts, emptyCounts } from './summary.ts';
import { adviceOn, type Made } from './to-payload.ts';

/** So many requests are on their way at once. */
const PARALLEL = 8;

/** With so many failures in a row the collector is taken to be gone, and no more is sent. */
const MAX_FAILED_IN_ROW = 5;

/** So many bad records are told one by one. */
const MAX_TOLD = 100;

/** How the records are sent. */
export type LoadOptions = {
  toPayload: (fields: Record<string, unknown>) => Made;
  /** Sends a payload. */
  deliver: (payload: object, idempotencyKey: string, signal: AbortSignal) => Promise<Delivery>;
  /** Records are only checked. */
  dryRun: boolean;
  /** Sets the keys of this load apart from those of others that send the same. */
  keyPrefix: string;
  rejected: Rejected;
  /** Aborted by whoever stops the run. */
  signal: AbortSignal;
  /** Is aborted here where no more can be sent, so that the reading ends too, which may be waiting for more. */
  gone: AbortController;
  /** Told of each record that is bad, in one line. */
  tell: (line: string) => void;
  /** @param end Where in the text the last record ends, in bytes of UTF-8. */
  onProgress: (counts: Readonly<Counts>, end: number) => void;
};

/** What became of them. */
export type LoadReport = {
  counts: Counts;
  /** Whether it ended before the file did, since too many failed in a row. */
  isGivenUp: boolean;
};

type Ready = { row: GoodRow; payload: Record<string, unknown> };

/**
 * Checks the records of a file and sends them, a few at once. Whoever stops it in the middle sends the file
 * with the same prefix again: a record's idempotency key is made of that, its place and its content, so what
 * has arrived is not stored twice.
 * @param report Filled while it works, and so right even when this throws.
 * @throws CommandError for what stands in the way of all records; AbortError.
 */
export async function load(
  rows: AsyncIterable<Row>,
  options: LoadOptions,
  report: LoadReport,
): Promise<void> {
  const { toPayload, deliver, dryRun, keyPrefix, rejected, gone, tell, onProgress } = options;
  const { counts } = report;
  const signal = AbortSignal.any([options.signal, gone.signal]);
  let told = 0;
  let failedInRow = 0;

  function tellBad(line: string): void {
    told += 1;
    if (told <= MAX_TOLD) tell(oneLine(line));
    if (told === MAX_TOLD) tell('… further ones are only counted; --rejected keeps all of them');
  }

  async function reject(
    row: Row,
    reason: string,
    outcome: 'unprocessed' | 'refused' | 'failed',
  ): Promise<void> {
    counts[outcome] += 1;
    tellBad(`${placeOf(row)}: ${reason}`);
    await rejected.add(row, reason);
  }

  const sender = createSender<Ready>({
    parallel: PARALLEL,
    listingOf: ({ payload }) => String(payload['external_id']),
    async deliver({ row, payload }) {
      const delivery = await deliver(
        payload,
        recordKey(keyPrefix, row.index ?? row.line, payload),
        signal,
      );
      failedInRow = delivery.outcome === 'failed' ? failedInRow + 1 : 0;
      if ('reason' in delivery) {
        await reject(row, delivery.reason, delivery.outcome);
        if (failedInRow === MAX_FAILED_IN_ROW) {
          report.isGivenUp = true;
          gone.abort();
        }
      } else {
        counts[delivery.outcome] += 1;
      }
      onProgress(counts, row.end);
    },
    onFailure: () => gone.abort(),
  });

  try {
    for await (const row of rows) {
      signal.throwIfAborted();
      counts.read += 1;
      const ready = 'fields' in row ? readied(row, toPayload(row.fields)) : row;
      if ('reason' in ready) await reject(row, ready.reason, 'refused');
      else if (!dryRun) await sender.send(ready);
      onProgress(counts, row.end);
    }
    await sender.end();
  } catch (error) {
    // What ended the reading is the reason, not that it ended.
    const failure = await sender.end().then(
      () => error,
      (reason: unknown) => reason,
    );
    if (!report.isGivenUp) throw failure;
  }
}

/** A report of nothing yet. */
export function emptyReport(): LoadReport {
  return { counts: emptyCounts(), isGivenUp: false };
}

/** What was made of a row, unless the collector would have something against it: that, in one line. */
function readied(row: GoodRow, made: Made): Ready | { reason: string } {
  if ('reason' in made) return made;
  const errors = checkPayload(made.payload).map(({ path, message }) => {
    const field = path.replace(/^body\/?/, '');
    const advice = adviceOn(field, made.payload[field]);
    return `${field} ${message}${advice === undefined ? '' : ` (${advice})`}`.trim();
  });
  return errors.length === 0 ? { row, payload: made.payload } : { reason: errors.join('; ') };
}
