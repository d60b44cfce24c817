import type { Choice, Maintenance, Reading } from '@oselya/collector';
import { noProgress, showProgress } from '../progress.ts';
import { ask } from './ask.ts';
import { openSpool } from './spool.ts';
import { createWriter } from './writer.ts';
import {
  countReading,
  describeReading,
  describeReadings,
  describeWritten,
  emptySummary,
  type Summary,
} from './summary.ts';

export type ReprocessOptions = {
  choice: Choice;
  limit: number;
  dryRun: boolean;
  /** Write without being asked. */
  yes: boolean;
  verbose: boolean;
  signal: AbortSignal;
  print: (line: string) => void;
};

/**
 * Reads listings again and tells what would change; then, when that is wanted, writes it. Without a
 * question in between each listing is written as soon as it is read, so a run that is stopped has kept
 * what it did.
 */
export async function reprocess(
  maintenance: Pick<Maintenance, 'reprocess' | 'parallel'>,
  { choice, limit, dryRun, yes, verbose, signal, print }: ReprocessOptions,
): Promise<Summary> {
  const { reprocess: work } = maintenance;
  const summary = emptySummary();
  const writer = createWriter(maintenance, (outcome) => {
    summary.written[outcome] += 1;
  });
  await using spool = await openSpool<Reading>();

  async function read(): Promise<void> {
    const total = Math.min(limit, await work.count(choice));
    const isPrinting = verbose && process.stdout.isTTY;
    const progress = isPrinting ? noProgress : showProgress({ what: 'listings', total });
    let done = 0;
    try {
      for await (const reading of work.read(choice, { limit, signal })) {
        countReading(summary, reading);
        if (verbose) for (const line of describeReading(reading)) print(line);
        if (reading.outcome === 'read' && !dryRun) {
          await (yes ? writer.write(reading) : spool.add(reading));
        }
        done += 1;
        progress.update(done, `${summary.changing} would change`);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      await writer.end();
      progress.stop();
    }
  }

  async function writeSpooled(): Promise<void> {
    const progress = showProgress({ what: 'listings', total: summary.read.read });
    let done = 0;
    try {
      for await (const reading of spool.values()) {
        if (signal.aborted) break;
        await writer.write(reading);
        done += 1;
        progress.update(done);
      }
    } finally {
      await writer.end();
      progress.stop();
    }
  }

  await read();
  for (const line of describeReadings(summary)) print(line);
  const isWanted =
    !dryRun &&
    !yes &&
    summary.read.read > 0 &&
    !signal.aborted &&
    (await ask(`Write ${summary.read.read} listings?`, signal));
  if (isWanted) await writeSpooled();
  for (const line of isWanted || yes ? describeWritten(summary) : ['Nothing was changed.']) {
    print(line);
  }
  return summary;
}
