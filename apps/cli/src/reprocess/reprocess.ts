import type { Choice, Maintenance, Reading } from '@oselya/collector';
import type { Io } from '../context.ts';
import { noProgress, showProgress } from '../progress.ts';
import { openSpool } from './spool.ts';
import {
  countReading,
  describeFailure,
  describeReading,
  describeReadings,
  describeWritten,
  emptySummary,
  type Summary,
} from './summary.ts';
import { type Stop, walk } from './walk.ts';
import { createWriter } from './writer.ts';

/** Which listings are read again, and how the person takes part in it. */
export type ReprocessOptions = {
  choice: Choice;
  limit: number;
  dryRun: boolean;
  /** Write without being asked. */
  yes: boolean;
  verbose: boolean;
  /** Stops it: what has begun to be written ends, and nothing more is begun. */
  signal: AbortSignal;
  print: (line: string) => void;
  /** What `print` writes to, and where the progress is shown. */
  output: Pick<Io, 'stdout' | 'stderr'>;
  /** Asks the person at the terminal; the signal takes the question back. */
  ask: (question: string, signal: AbortSignal | undefined) => Promise<boolean>;
};

/** What a run has done, and what stopped it unless it came to its end. */
export type Run = { summary: Summary; stopped: Stop | undefined };

/**
 * Reads listings again and tells what would change; then, when that is wanted, writes it. Without a
 * question in between each listing is written as soon as it is read. A run that stops or fails while it
 * reads asks all the same, since what was read by then is paid for.
 */
export async function reprocess(
  maintenance: Pick<Maintenance, 'reprocess' | 'parallel'>,
  { choice, limit, dryRun, yes, verbose, signal, print, output, ask }: ReprocessOptions,
): Promise<Run> {
  const { reprocess: work } = maintenance;
  const { after } = choice;
  const summary = emptySummary();
  let progress = noProgress;
  /** Prints lines above the progress. */
  const tell = (lines: readonly string[]) => {
    if (lines.length > 0) progress.clear();
    for (const line of lines) print(line);
  };
  const writer = createWriter(maintenance, (listingId, written) => {
    summary.written[written.outcome] += 1;
    tell(describeFailure(listingId, written));
  });
  await using spool = await openSpool<Reading>();

  async function read(): Promise<Stop | undefined> {
    const total = Math.min(limit, await work.count(choice));
    const isPrinting = verbose && output.stdout.isTTY === true;
    progress = isPrinting ? noProgress : showProgress({ what: 'listings', total }, output.stderr);
    const stop = await walk(
      work.read(choice, { limit, signal, dryRun }),
      async (reading) => {
        countReading(summary, reading);
        if (verbose || reading.outcome === 'failed') tell(describeReading(reading));
        if (reading.outcome !== 'read' || dryRun) return;
        await (yes ? writer.write(reading) : spool.add(reading));
      },
      {
        after,
        signal,
        onDone: (count) => progress.update(count, `${summary.changing} would change`),
      },
    );
    const ended = await endWriting(stop);
    progress.stop();
    return ended;
  }

  async function writeSpooled(stoppedBy: AbortSignal | undefined): Promise<Stop | undefined> {
    progress = showProgress({ what: 'listings', total: summary.read.read }, output.stderr);
    const stop = await walk(spool.values(), (reading) => writer.write(reading), {
      after,
      signal: stoppedBy,
      onDone: (count) => progress.update(count),
    });
    const ended = await endWriting(stop);
    progress.stop();
    return ended;
  }

  /** Waits for what is being written; what comes after one that could not be written is not done. */
  async function endWriting(stop: Stop | undefined): Promise<Stop | undefined> {
    const failure = await writer.end();
    if (failure === undefined) return stop;
    const before = failure.listingId - 1;
    return { error: failure.error, after: Math.min(stop?.after ?? before, before) || undefined };
  }

  const stopped = await read();
  for (const line of describeReadings(summary)) print(line);
  if (yes) {
    for (const line of describeWritten(summary)) print(line);
    return { summary, stopped };
  }
  const question =
    stopped === undefined
      ? `Write ${summary.read.read} listings?`
      : `It stopped. Write the ${summary.read.read} listings that were read by then?`;
  // Who has stopped the reading is asked, and a further Ctrl-C is a no.
  const stoppedBy = stopped === undefined ? signal : undefined;
  const isWanted = !dryRun && summary.read.read > 0 && (await ask(question, stoppedBy));
  if (!isWanted) {
    print('Nothing was changed.');
    const isStopped = stopped !== undefined || signal.aborted;
    if (dryRun || !isStopped) return { summary, stopped };
    return { summary, stopped: { ...stopped, after } };
  }
  const cut = await writeSpooled(stoppedBy);
  for (const line of describeWritten(summary)) print(line);
  return { summary, stopped: cut ?? stopped };
}
