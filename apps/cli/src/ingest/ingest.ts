import type { CollectorAddress } from '../collector-client.ts';
import { CommandError } from '../command-error.ts';
import type { Context } from '../context.ts';
import { INTERRUPTED, onInterrupt } from '../interrupt.ts';
import { oneLine } from '../terminal.ts';
import type { DelimiterName } from './csv.ts';
import { checkMapping } from './check-mapping.ts';
import { deliver } from './deliver.ts';
import { beginLoad, fingerprintOf, type Load } from './kept-load.ts';
import { emptyReport, load, type LoadReport } from './load.ts';
import { type Format, openRows } from './open-rows.ts';
import { createPause } from './pause.ts';
import { noRejected, openRejected, type Rejected } from './rejected.ts';
import { isSameFile } from './same-file.ts';
import { showReading } from './show-reading.ts';
import { type Counts, describeRun, keepName } from './summary.ts';
import { createTellOnce } from './tell-once.ts';
import type { ReadBytes } from './text.ts';
import { createToPayload } from './to-payload.ts';

/** Which file is sent, and where to. */
export type IngestRun = {
  file: string;
  format: Format;
  source: string;
  /** Which column each of some fields comes from. */
  map?: ReadonlyMap<string, string> | undefined;
  encoding: string;
  delimiter?: DelimiterName | undefined;
  /** Where to keep what is rejected; `true` is beside the file. */
  rejected?: string | true | undefined;
  /** Begins another load, also where one of the file was interrupted. */
  again?: boolean | undefined;
  /** What to take for one load, in place of one run of the file after another. */
  load?: string | undefined;
  dryRun?: boolean | undefined;
  collector: CollectorAddress;
};

/**
 * Sends a file's records to the collector and tells what became of them.
 * @throws CommandError where the file or the collector ends it early, after telling how far it came.
 */
export async function ingest(run: IngestRun, context: Context): Promise<void> {
  const { stdin, stderr, print } = context;
  const note = (line: string) => void stderr.write(`${oneLine(line)}\n`);
  const { file, source, collector, dryRun = false, map = new Map<string, string>() } = run;
  const signal = onInterrupt();
  const gone = new AbortController();
  const report = emptyReport();
  const attributes = new Set<string>();
  const {
    size,
    name: fileName,
    rows,
    read,
  } = await openRows({
    path: file,
    format: run.format,
    encoding: run.encoding,
    delimiter: run.delimiter,
    onColumns: (columns) => checkColumns(map, columns),
    stdin,
    signal: AbortSignal.any([signal, gone.signal]),
  });
  const rejected = await openRejectedOf(run, stdin);
  const begun = dryRun ? undefined : await begin(run, { env: context.env, note });
  const progress = showReading(size, read, stderr);
  const toPayload = createToPayload({
    source,
    mapping: map,
    onUnknown: (name) => keepName(attributes, name),
  });
  const pause = createPause();
  const noteBelow = (line: string) => {
    progress.clear();
    note(line);
  };
  const onRetry = createTellOnce(noteBelow);
  let failure: unknown;
  try {
    const options = {
      toPayload,
      deliver: (payload: object, key: string, stop: AbortSignal) =>
        deliver(payload, key, { collector, pause, signal: stop, onRetry }),
      dryRun,
      keyPrefix: `load-${begun?.id ?? ''}`,
      rejected,
      signal,
      gone,
      tell(line: string) {
        progress.clear();
        print(line);
      },
      onProgress: (counts: Readonly<Counts>, end: number) => progress.update(counts, end),
    };
    await load(checkMapping(rows, map, noteBelow), options, report);
    if (!report.isGivenUp) progress.complete(report.counts);
    if (report.counts.read === 0 && !signal.aborted) throw noRecords(fileName, run.format, read);
  } catch (error) {
    failure = error;
  }
  await rejected.end().catch((error: unknown) => {
    failure ??= error;
  });
  progress.stop();
  const isWhole = failure === undefined && !report.isGivenUp && report.counts.failed === 0;
  if (isWhole) await begun?.end();
  // Where nothing was read, the failure says all there is to say.
  const isBegun = report.counts.read > 0 || failure === undefined;
  for (const line of isBegun ? describeRun(report.counts, { dryRun, attributes }) : []) print(line);
  const next = begun?.isResumable ? 'it goes on where it stopped' : 'it begins anew';
  // Ctrl-C that came when all was sent has stopped nothing.
  conclude(report, { failure, isStopped: signal.aborted && !isWhole, next }, context);
}

/** Begins the load, or goes on with it. */
async function begin(
  { file, format, source, map, encoding, delimiter, collector, load: name, again }: IngestRun,
  { env, note }: Pick<Context, 'env'> & { note: (line: string) => void },
): Promise<Load> {
  const fingerprint = await fingerprintOf(file, [format, [...(map ?? [])], encoding, delimiter]);
  const begun = await beginLoad(
    { collectorUrl: collector.url, source, fingerprint, name, again },
    {
      env,
      onProblem: (reason) =>
        note(`Nothing can be kept of this load (${reason}): once interrupted, it begins anew.`),
    },
  );
  if (begun.resumedFrom !== undefined) {
    note(
      `Going on with the load of this file that began at ${begun.resumedFrom.toISOString()} and did not end; --again begins another.`,
    );
  }
  return begun;
}

/**
 * Ends the command as the run ended.
 * @param next What comes of giving the command again.
 */
function conclude(
  { counts, isGivenUp }: LoadReport,
  { failure, isStopped, next }: { failure: unknown; isStopped: boolean; next: string },
  { print, exitWith }: Context,
): void {
  if (isStopped) {
    print(`It was stopped: give the command again, and ${next}.`);
    exitWith(INTERRUPTED);
  } else if (failure !== undefined) {
    throw failure;
  } else if (isGivenUp) {
    throw new CommandError(
      `too many records failed in a row, and no more were sent: see the reasons above, start the collector (npm start) or set COLLECTOR_URL to where it is, then give the command again: ${next}`,
    );
  } else if (counts.refused + counts.failed + counts.unprocessed > 0) {
    exitWith(1);
  }
}

function noRecords(name: string, format: Format, read: Readonly<ReadBytes>): CommandError {
  const reasons = {
    csv: 'it names the columns and nothing more',
    json: 'its array is empty',
    jsonl: 'it has blank lines alone',
  };
  const reason = read.bytes === 0 ? 'it is empty' : reasons[format];
  return new CommandError(`${name} has no records: ${reason}. Nothing was sent`);
}

function checkColumns(map: ReadonlyMap<string, string>, columns: readonly string[]): void {
  for (const [field, column] of map) {
    if (columns.includes(column)) continue;
    throw new CommandError(
      `there is no column ${JSON.stringify(column)} (--map ${field}=${column}): the file has ${oneLine(columns.join(', '))}`,
    );
  }
}

async function openRejectedOf(
  { rejected, file }: IngestRun,
  stdin: Context['stdin'],
): Promise<Rejected> {
  if (rejected === undefined) return noRejected;
  const path = rejected === true ? `${file}.rejected.jsonl` : rejected;
  if (isSameFile(file === '-' ? stdin.fd : file, path)) {
    throw new CommandError(`${path} is the file that is read: name another`);
  }
  return openRejected(path);
}
