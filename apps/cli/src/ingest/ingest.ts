import { hash, randomUUID } from 'node:crypto';
import { type BigIntStats, fstatSync, statSync } from 'node:fs';
import {
  CommandError,
  type Context,
  createInterruptSignal,
  INTERRUPTED_STATUS,
  type Output,
} from '../command.ts';
import type { CollectorConnection } from '../http.ts';
import { showProgress, silentProgress } from '../progress.ts';
import { sanitizeLine } from '../terminal.ts';
import type { DelimiterName } from './csv.ts';
import { createPayloadSender } from './deliver.ts';
import { type LoadCounts, loadRecords, openRejectedFile } from './load.ts';
import { addName, checkMapping, createPayloadConverter, formatNames } from './payload.ts';
import { type FileFormat, openRows } from './rows.ts';
import type { ByteCounts } from './text.ts';

const KIBIBYTE = 1024;

const PROGRESS_STEP_RECORDS = 1000;

export type IngestOptions = {
  file: string;
  format: FileFormat;
  source: string;
  map?: ReadonlyMap<string, string> | undefined;
  encoding: string;
  delimiter?: DelimiterName | undefined;
  /** File for bad records. True means a file next to the input file. */
  rejected?: string | true | undefined;
  /** Whether to resend a file that was sent before. */
  again?: boolean | undefined;
  /** Name of the load. By default derived from the file; random with `again`, and for a pipe or standard input. */
  load?: string | undefined;
  dryRun?: boolean | undefined;
  collector: CollectorConnection;
};

/**
 * Sends a file's records to the collector and prints the result.
 * @throws CommandError if the file or the collector fails, after printing the partial result.
 */
export async function ingestFile(options: IngestOptions, context: Context): Promise<void> {
  const { stdin, stderr, print, exitWith } = context;
  const {
    source,
    collector,
    format,
    dryRun = false,
    map: mapping = new Map<string, string>(),
  } = options;
  const signal = createInterruptSignal();
  const readController = new AbortController();
  const attributes = new Set<string>();
  const input = await openRows({
    path: options.file,
    format,
    encoding: options.encoding,
    delimiter: options.delimiter,
    onColumns: (columns) => checkColumns(mapping, columns),
    stdin,
    signal: AbortSignal.any([signal, readController.signal]),
  });
  const rejectedFile = openRejected(options, stdin);
  const progress = showReadProgress(input.size, input.byteCounts, stderr);
  const note = (line: string) => {
    progress.clear();
    stderr.write(`${sanitizeLine(line)}\n`);
  };
  const { id, canResume } = createLoadId(options);
  const result = await loadRecords(checkMapping(input.rows, mapping, note), {
    toPayload: createPayloadConverter({
      source,
      mapping,
      onUnknown: (name) => addName(attributes, name),
    }),
    deliver: createPayloadSender({ collector, onRetry: note }),
    dryRun,
    keyPrefix: `load-${id}`,
    rejectedFile,
    signal,
    readController,
    onBadRow(description) {
      progress.clear();
      print(description);
    },
    onProgress: (records, end) => progress.advance(records, end),
  });
  const { counts, hasGivenUp } = result;
  if (result.error === undefined && !hasGivenUp) progress.complete(counts.read);
  progress.stop();
  const isEmpty = counts.read === 0 && result.error === undefined && !signal.aborted;
  const error = isEmpty ? createNoRecordsError(input.name, format, input.byteCounts) : result.error;
  // Without records, report only the error.
  if (counts.read > 0 || error === undefined) {
    print(...describeCounts(counts, { dryRun, attributes }));
  }
  // Close after the summary, because a failed close throws.
  rejectedFile?.close();
  const nextRun = canResume ? 'it continues where it stopped' : 'it starts from the beginning';
  // A Ctrl-C after the last record does not count as an interruption.
  if (signal.aborted && (error !== undefined || hasGivenUp || counts.failed > 0)) {
    print(`Interrupted. Run the command again: ${nextRun}.`);
    exitWith(INTERRUPTED_STATUS);
  } else if (error !== undefined) {
    throw error;
  } else if (hasGivenUp) {
    throw new CommandError(
      `too many records failed in a row, so it stopped: see the reasons above, start the collector (npm start) or set COLLECTOR_URL to its address, then run the command again: ${nextRun}`,
    );
  } else if (counts.rejected + counts.failed + counts.unprocessed > 0) {
    exitWith(1);
  }
}

/**
 * Returns the ID of a load, which is part of every idempotency key. An unchanged file with the same options has the
 * same ID, so a repeated command resumes an interrupted load within 24 hours. With `again`, and for a pipe or standard
 * input, an unnamed load has a random ID.
 */
function createLoadId(options: IngestOptions): { id: string; canResume: boolean } {
  const { file, load, again, format, map, encoding, delimiter, source } = options;
  if (load !== undefined) return { id: load, canResume: true };
  const stats = again === true || file === '-' ? undefined : getFileStats(file);
  if (stats === undefined) return { id: randomUUID(), canResume: false };
  const { size, mtimeNs, ctimeNs, ino } = stats;
  const readerOptions = [format, [...(map ?? [])], encoding, delimiter, source];
  const identity = JSON.stringify([[size, mtimeNs, ctimeNs, ino].map(String), readerOptions]);
  return { id: hash('sha256', identity).slice(0, 32), canResume: true };
}

/** Returns the status of a regular file, or undefined for pipes, terminals and missing files. */
function getFileStats(file: string | number): BigIntStats | undefined {
  try {
    const options = { bigint: true } as const;
    const stats = typeof file === 'number' ? fstatSync(file, options) : statSync(file, options);
    return stats.isFile() ? stats : undefined;
  } catch {
    return undefined;
  }
}

function openRejected({ rejected, file }: IngestOptions, stdin: Context['stdin']) {
  if (rejected === undefined) return undefined;
  const path = rejected === true ? `${file}.rejected.jsonl` : rejected;
  const input = getFileStats(file === '-' ? (stdin.fd ?? -1) : file);
  const output = getFileStats(path);
  if (input !== undefined && input.dev === output?.dev && input.ino === output.ino) {
    throw new CommandError(`${path} is the file that is read: name another`);
  }
  return openRejectedFile(path);
}

function checkColumns(mapping: ReadonlyMap<string, string>, columns: readonly string[]): void {
  for (const [field, column] of mapping) {
    if (columns.includes(column)) continue;
    throw new CommandError(
      `there is no column ${JSON.stringify(column)} (--map ${field}=${column}): the file has ${sanitizeLine(columns.join(', '))}`,
    );
  }
}

const NO_RECORDS_REASONS: Readonly<Record<FileFormat, string>> = {
  csv: 'it names the columns and nothing more',
  json: 'its array is empty',
  jsonl: 'it has only blank lines',
};

function createNoRecordsError(
  name: string,
  format: FileFormat,
  byteCounts: ByteCounts,
): CommandError {
  const reason = byteCounts.bytes === 0 ? 'it is empty' : NO_RECORDS_REASONS[format];
  return new CommandError(`${name} has no records: ${reason}. Nothing was sent`);
}

/**
 * Shows the progress through a file.
 * @param size File size in bytes. Undefined for a pipe.
 */
function showReadProgress(
  size: number | undefined,
  byteCounts: Readonly<ByteCounts>,
  output: Output,
) {
  const total = Math.ceil((size ?? 0) / KIBIBYTE);
  const progress =
    size === undefined ? silentProgress : showProgress({ unit: 'KiB', total }, output);
  let lastShownCount = 0;
  return {
    ...progress,
    advance(records: number, end: number): void {
      if (size !== undefined) {
        const kibibytes = Math.floor(((end / byteCounts.utf8Bytes) * byteCounts.bytes) / KIBIBYTE);
        progress.update(Math.min(kibibytes, total - 1), formatRecordCount(records));
      } else if (records >= lastShownCount + PROGRESS_STEP_RECORDS) {
        lastShownCount = records;
        output.write(`${formatRecordCount(records)}\n`);
      }
    },
    complete: (records: number) => progress.update(total, formatRecordCount(records)),
  };
}

function formatRecordCount(count: number): string {
  return count === 1 ? '1 record' : `${count} records`;
}

function describeCounts(
  { read, accepted, known, unprocessed, rejected, failed }: LoadCounts,
  { dryRun, attributes }: { dryRun: boolean; attributes: ReadonlySet<string> },
): string[] {
  const unsentCount = read - accepted - known - unprocessed - rejected - failed;
  const counts = [
    `${accepted} accepted`,
    `${known} already known`,
    ...(unprocessed === 0 ? [] : [`${unprocessed} known but not processed`]),
    `${rejected} rejected`,
    `${failed} failed`,
    ...(unsentCount === 0 ? [] : [`${unsentCount} not sent`]),
  ];
  const lines = [
    dryRun
      ? `Read ${formatRecordCount(read)}: ${read - rejected} can be sent, ${rejected} cannot. Nothing was sent.`
      : `Read ${formatRecordCount(read)}: ${counts.join(', ')}.`,
  ];
  if (attributes.size > 0) {
    lines.unshift(`Not fields of a payload, so kept in its attributes: ${formatNames(attributes)}`);
  }
  if (unprocessed > 0) {
    lines.push(
      'The collector has the records that were not processed: GET /api/v1/raw/{raw_id} says why, and POST /api/v1/admin/raw/retry puts them back in the queue.',
    );
  }
  return lines;
}
