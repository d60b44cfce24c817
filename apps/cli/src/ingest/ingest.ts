import { hash, randomUUID } from 'node:crypto';
import { type BigIntStats, fstatSync, statSync } from 'node:fs';
import {
  CommandError,
  type Context,
  INTERRUPTED_STATUS,
  createInterruptSignal,
  type Output,
} from '../command.ts';
import type { CollectorConnection } from '../http.ts';
import { silentProgress, type Progress, showProgress } from '../progress.ts';
import { oneLine } from '../terminal.ts';
import type { DelimiterName } from './csv.ts';
import { createRetryReporter, createThrottle, deliverPayload } from './deliver.ts';
import {
  type LoadCounts,
  createLoadReport,
  loadRecords,
  type LoadReport,
  openRejectedFile,
} from './load.ts';
import { addName, checkMapping, createPayloadConverter, formatNames } from './payload.ts';
import { type FileFormat, openRows } from './rows.ts';
import type { ByteCounts } from './text.ts';

const KIBIBYTE = 1024;

/** Records per progress line if the file size is unknown. */
const PROGRESS_STEP = 1000;

/** Options of `oselya ingest`. */
export type IngestOptions = {
  file: string;
  format: FileFormat;
  source: string;
  /** Columns of the mapped fields. */
  map?: ReadonlyMap<string, string> | undefined;
  encoding: string;
  delimiter?: DelimiterName | undefined;
  /** File for bad records. True means a file next to the input file. */
  rejected?: string | true | undefined;
  /** Sends a file again that was sent before. */
  again?: boolean | undefined;
  /** Name of the load. Derived from the file by default. */
  load?: string | undefined;
  dryRun?: boolean | undefined;
  collector: CollectorConnection;
};

/**
 * Sends a file's records to the collector and prints the result.
 * @throws CommandError if the file or the collector fails, after printing the partial result.
 */
export async function ingestFile(run: IngestOptions, context: Context): Promise<void> {
  const { stdin, stderr, print } = context;
  const { source, collector, dryRun = false, map = new Map<string, string>() } = run;
  const signal = createInterruptSignal();
  const stopReading = new AbortController();
  const report = createLoadReport();
  const attributes = new Set<string>();
  const input = await openRows({
    path: run.file,
    format: run.format,
    encoding: run.encoding,
    delimiter: run.delimiter,
    onColumns: (columns) => checkColumns(map, columns),
    stdin,
    signal: AbortSignal.any([signal, stopReading.signal]),
  });
  const rejectedFile = await openRejected(run, stdin);
  const progress = showReading(input.size, input.read, stderr);
  const note = (line: string) => {
    progress.clear();
    stderr.write(`${oneLine(line)}\n`);
  };
  const throttle = createThrottle();
  const onRetry = createRetryReporter(note);
  const { id, canResume } = loadId(run);
  let failure: unknown;
  try {
    const options = {
      toPayload: createPayloadConverter({
        source,
        mapping: map,
        onUnknown: (name) => addName(attributes, name),
      }),
      deliver: (payload: object, key: string, stop: AbortSignal) =>
        deliverPayload(payload, key, { collector, throttle, signal: stop, onRetry }),
      dryRun,
      keyPrefix: `load-${id}`,
      rejectedFile,
      signal,
      stopReading,
      onBadRow(line: string) {
        progress.clear();
        print(line);
      },
      onProgress: (counts: Readonly<LoadCounts>, end: number) => progress.advance(counts, end),
    };
    await loadRecords(checkMapping(input.rows, map, note), options, report);
    if (!report.hasGivenUp) progress.complete(report.counts);
    if (report.counts.read === 0 && !signal.aborted) throw noRecords(input.name, run, input.read);
  } catch (error) {
    failure = error;
  }
  await rejectedFile?.end().catch((error: unknown) => {
    failure ??= error;
  });
  progress.stop();
  // Without records, the failure alone is reported.
  if (report.counts.read > 0 || failure === undefined) {
    for (const line of describe(report.counts, { dryRun, attributes })) print(line);
  }
  conclude(report, { failure, isStopped: signal.aborted, canResume }, context);
}

/**
 * Returns the id of a load, which is part of every idempotency key. An unchanged file with the same
 * options has the same id, so a repeated command resumes an interrupted load within 24 hours.
 */
function loadId(run: IngestOptions): { id: string; canResume: boolean } {
  if (run.load !== undefined) return { id: run.load, canResume: true };
  const found = run.again === true || run.file === '-' ? undefined : statOf(run.file);
  if (found === undefined) return { id: randomUUID(), canResume: false };
  const { size, mtimeNs, ctimeNs, ino } = found;
  const how = [run.format, [...(run.map ?? [])], run.encoding, run.delimiter, run.source];
  const identity = JSON.stringify([[size, mtimeNs, ctimeNs, ino].map(String), how]);
  return { id: hash('sha256', identity).slice(0, 32), canResume: true };
}

/** Returns the status of a regular file. Undefined for pipes, terminals and missing files. */
function statOf(file: string | number): BigIntStats | undefined {
  try {
    const options = { bigint: true } as const;
    const found = typeof file === 'number' ? fstatSync(file, options) : statSync(file, options);
    return found.isFile() ? found : undefined;
  } catch {
    return undefined;
  }
}

async function openRejected({ rejected, file }: IngestOptions, stdin: Context['stdin']) {
  if (rejected === undefined) return undefined;
  const path = rejected === true ? `${file}.rejected.jsonl` : rejected;
  const [input, output] = [statOf(file === '-' ? (stdin.fd ?? -1) : file), statOf(path)];
  if (input !== undefined && input.dev === output?.dev && input.ino === output.ino) {
    throw new CommandError(`${path} is the file that is read: name another`);
  }
  return openRejectedFile(path);
}

function checkColumns(map: ReadonlyMap<string, string>, columns: readonly string[]): void {
  for (const [field, column] of map) {
    if (columns.includes(column)) continue;
    throw new CommandError(
      `there is no column ${JSON.stringify(column)} (--map ${field}=${column}): the file has ${oneLine(columns.join(', '))}`,
    );
  }
}

function noRecords(
  name: string,
  { format }: IngestOptions,
  read: Readonly<ByteCounts>,
): CommandError {
  const reasons = {
    csv: 'it names the columns and nothing more',
    json: 'its array is empty',
    jsonl: 'it has only blank lines',
  };
  const reason = read.bytes === 0 ? 'it is empty' : reasons[format];
  return new CommandError(`${name} has no records: ${reason}. Nothing was sent`);
}

/** Shows the progress through a file. */
type ReadingProgress = Progress & {
  advance(counts: Readonly<LoadCounts>, end: number): void;
  complete(counts: Readonly<LoadCounts>): void;
};

/** @param size File size in bytes. Undefined for a pipe. */
function showReading(
  size: number | undefined,
  read: Readonly<ByteCounts>,
  output: Output,
): ReadingProgress {
  let shown = 0;
  if (size === undefined) {
    return {
      ...silentProgress,
      advance(counts) {
        if (counts.read < shown + PROGRESS_STEP) return;
        shown = counts.read;
        output.write(`${countRecords(shown)}\n`);
      },
      complete: () => undefined,
    };
  }
  const total = Math.ceil(size / KIBIBYTE);
  const progress = showProgress({ what: 'KiB', total }, output);
  return {
    ...progress,
    advance(counts, end) {
      const bytes = (end / read.utf8Bytes) * read.bytes;
      progress.update(Math.min(Math.floor(bytes / KIBIBYTE), total - 1), countRecords(counts.read));
    },
    complete: (counts) => progress.update(total, countRecords(counts.read)),
  };
}

function countRecords(count: number): string {
  return count === 1 ? '1 record' : `${count} records`;
}

function describe(
  { read, accepted, known, unprocessed, rejected, failed }: LoadCounts,
  { dryRun, attributes }: { dryRun: boolean; attributes: ReadonlySet<string> },
): string[] {
  const unsent = read - accepted - known - unprocessed - rejected - failed;
  const counts = [
    `${accepted} accepted`,
    `${known} already known`,
    ...(unprocessed === 0 ? [] : [`${unprocessed} known but not processed`]),
    `${rejected} rejected`,
    `${failed} failed`,
    ...(unsent === 0 ? [] : [`${unsent} not sent`]),
  ];
  return [
    ...(attributes.size === 0
      ? []
      : [`Not fields of a payload, so kept in its attributes: ${formatNames(attributes)}`]),
    dryRun
      ? `Read ${countRecords(read)}: ${read - rejected} can be sent, ${rejected} cannot. Nothing was sent.`
      : `Read ${countRecords(read)}: ${counts.join(', ')}.`,
    ...(unprocessed === 0
      ? []
      : [
          'The collector has the records that were not processed: GET /api/v1/raw/{raw_id} says why, and POST /api/v1/admin/raw/retry puts them back in the queue.',
        ]),
  ];
}

/** Sets the exit status, or throws the failure. */
function conclude(
  { counts, hasGivenUp }: LoadReport,
  options: { failure: unknown; isStopped: boolean; canResume: boolean },
  { print, exitWith }: Context,
): void {
  const { failure, isStopped, canResume } = options;
  const next = canResume ? 'it continues where it stopped' : 'it starts from the beginning';
  // A Ctrl-C after the last record does not count as an interruption.
  if (isStopped && (failure !== undefined || hasGivenUp || counts.failed > 0)) {
    print(`It was stopped: give the command again, and ${next}.`);
    exitWith(INTERRUPTED_STATUS);
  } else if (failure !== undefined) {
    throw failure;
  } else if (hasGivenUp) {
    throw new CommandError(
      `too many records failed in a row, so it stopped: see the reasons above, start the collector (npm start) or set COLLECTOR_URL to its address, then give the command again: ${next}`,
    );
  } else if (counts.rejected + counts.failed + counts.unprocessed > 0) {
    exitWith(1);
  }
}
