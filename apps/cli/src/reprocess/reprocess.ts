import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ListingSelection, Maintenance, RepeatedExtraction } from '@oselya/collector';
import type { Io } from '../command.ts';
import { silentProgress, showProgress } from '../progress.ts';
import {
  countExtraction,
  createReprocessSummary,
  describeFailure,
  describeImages,
  describeExtraction,
  describeExtractions,
  describeWritten,
  type ImagesSummary,
} from './summary.ts';

/** Options of a reprocess run. */
export type ReprocessOptions = {
  limit: number;
  dryRun: boolean;
  /** Whether to write without confirmation. */
  yes: boolean;
  /** Signal that stops the run. Writes in progress finish. */
  signal: AbortSignal;
  print: (line: string) => void;
  /** The streams behind `print` and the progress. */
  output: Pick<Io, 'stdout' | 'stderr'>;
  /** Asks the operator; the signal withdraws the question. */
  confirm: (question: string, signal: AbortSignal | undefined) => Promise<boolean>;
};

/** Early end of a run. */
export type EarlyStop = {
  /** Id up to which all selected listings are done. */
  after: number | undefined;
  /** Failure of the run. Undefined if the operator stopped it. */
  error?: unknown;
};

/** Number of failed listings, and the early end of the run, if any. */
export type ReprocessResult = { failed: number; stopped: EarlyStop | undefined };

/**
 * Reads listings again, prints the changes, and writes them after a question. With `yes` each listing is
 * written after its extraction. A stopped or failed run still asks the question, because
 * its model calls are paid.
 */
export async function reprocess(
  maintenance: Pick<Maintenance, 'reprocess' | 'parallel'>,
  {
    choice,
    verbose,
    ...options
  }: ReprocessOptions & { choice: ListingSelection; verbose: boolean },
): Promise<ReprocessResult> {
  const { limit, dryRun, yes, signal, print, output, confirm } = options;
  const { reprocess: work, parallel } = maintenance;
  const { after } = choice;
  const summary = createReprocessSummary();
  let progress = silentProgress;
  const report = (lines: readonly string[]) => {
    if (lines.length > 0) progress.clear();
    for (const line of lines) print(line);
  };

  const writing = new Set<Promise<void>>();
  const failures: { listingId: number; error: unknown }[] = [];

  async function writeOne(reading: RepeatedExtraction): Promise<void> {
    const { listingId } = reading;
    try {
      const written = await work.write(reading);
      summary.written[written.outcome] += 1;
      report(describeFailure(listingId, written));
    } catch (error) {
      failures.push({ listingId, error });
    }
  }

  /** Starts to write an extraction as soon as a slot is free. @throws The failure of an earlier write. */
  async function write(reading: RepeatedExtraction): Promise<void> {
    if (writing.size >= parallel) await Promise.race(writing);
    if (failures[0] !== undefined) throw failures[0].error;
    const one = writeOne(reading).finally(() => writing.delete(one));
    writing.add(one);
  }

  /** Waits for all writes. The run continues before the first listing that could not be written. */
  async function endWriting(stop: EarlyStop | undefined): Promise<EarlyStop | undefined> {
    await Promise.all(writing);
    progress.stop();
    const [failure] = failures.toSorted((one, other) => one.listingId - other.listingId);
    if (failure === undefined) return stop;
    const before = failure.listingId - 1;
    return { error: failure.error, after: Math.min(stop?.after ?? before, before) || undefined };
  }

  const result = (stopped: EarlyStop | undefined): ReprocessResult => {
    const { read, written } = summary;
    return { failed: read.failed + written.failed + written.kept + written.incomplete, stopped };
  };

  await using spool = await openSpool<RepeatedExtraction>();
  const total = Math.min(limit, await work.count(choice));
  // Verbose output on a terminal replaces the progress bar.
  if (!verbose || output.stdout.isTTY !== true) {
    progress = showProgress({ what: 'listings', total }, output.stderr);
  }
  const stopped = await walk(
    work.read(choice, { limit, signal, dryRun }),
    async (reading) => {
      countExtraction(summary, reading);
      if (verbose || reading.outcome === 'failed') report(describeExtraction(reading));
      if (reading.outcome !== 'read' || dryRun) return;
      await (yes ? write(reading) : spool.add(reading));
    },
    {
      after,
      signal,
      onDone: (count) => progress.update(count, `${summary.changing} would change`),
    },
  ).then(endWriting);
  for (const line of describeExtractions(summary)) print(line);
  if (yes) {
    for (const line of describeWritten(summary)) print(line);
    return result(stopped);
  }
  const question =
    stopped === undefined
      ? `Write ${summary.read.read} listings?`
      : `It stopped. Write the ${summary.read.read} listings read so far?`;
  // A stopped run still asks the question. Another Ctrl-C answers no.
  const questionSignal = stopped === undefined ? signal : undefined;
  if (dryRun || summary.read.read === 0 || !(await confirm(question, questionSignal))) {
    print('Nothing was changed.');
    const isStopped = stopped !== undefined || signal.aborted;
    return result(dryRun || !isStopped ? stopped : { ...stopped, after });
  }
  progress = showProgress({ what: 'listings', total: summary.read.read }, output.stderr);
  const cut = await walk(spool.values(), write, {
    after,
    signal: questionSignal,
    onDone: (count) => progress.update(count),
  }).then(endWriting);
  for (const line of describeWritten(summary)) print(line);
  return result(cut ?? stopped);
}

/**
 * Counts the listings whose images were described by another prompt or model, or by none, and describes those
 * again after a question.
 */
export async function reprocessImages(
  { reprocessImages: work }: Pick<Maintenance, 'reprocessImages'>,
  { choice, ...options }: ReprocessOptions & { choice: Omit<ListingSelection, 'outdated'> },
): Promise<ReprocessResult> {
  const { limit, dryRun, yes, signal, print, output, confirm } = options;
  const { after } = choice;
  const summary: ImagesSummary = { described: 0, left: 0, failed: 0 };
  const total = Math.min(limit, await work.count(choice));
  print(`${total} listings have images that another prompt or model described, or none.`);
  const question = `Describe those of ${total} listings?`;
  if (dryRun || total === 0 || !(yes || (await confirm(question, signal)))) {
    print('Nothing was changed.');
    return { failed: 0, stopped: signal.aborted ? { after } : undefined };
  }
  const progress = showProgress({ what: 'listings', total }, output.stderr);
  const stopped = await walk(
    work.describe(choice, { limit, signal }),
    (described) => {
      summary[described.outcome] += 1;
      const lines = describeFailure(described.listingId, described);
      if (lines.length > 0) progress.clear();
      for (const line of lines) print(line);
      return Promise.resolve();
    },
    { after, signal, onDone: (count) => progress.update(count) },
  );
  progress.stop();
  for (const line of describeImages(summary)) print(line);
  return { failed: summary.failed, stopped };
}

/**
 * Processes listings in the order of their ids. Never throws.
 * @param options.after Id of the last listing that is already done.
 * @returns Undefined if all listings are done.
 */
async function walk<Item extends { listingId: number }>(
  items: AsyncIterable<Item>,
  work: (item: Item) => Promise<void>,
  options: {
    after: number | undefined;
    signal: AbortSignal | undefined;
    onDone: (count: number) => void;
  },
): Promise<EarlyStop | undefined> {
  const { signal, onDone } = options;
  let { after } = options;
  let count = 0;
  try {
    for await (const item of items) {
      await work(item);
      after = item.listingId;
      count += 1;
      onDone(count);
      if (signal?.aborted === true) return { after };
    }
    return undefined;
  } catch (error) {
    return signal?.aborted === true ? { after } : { after, error };
  }
}

/** Queue of values on disk, because the values may not fit into memory. */
type Spool<Value> = AsyncDisposable & {
  add(value: Value): Promise<void>;
  /** Yields all values in order. Nothing can be added afterwards. */
  values(): AsyncGenerator<Value>;
};

/** Opens a spool in an unlinked file, which is private and disappears with the process. */
async function openSpool<Value>(): Promise<Spool<Value>> {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-'));
  let file: FileHandle;
  try {
    file = await open(join(folder, 'values.jsonl'), 'wx+');
  } finally {
    await rm(folder, { recursive: true });
  }
  return {
    async add(value) {
      await file.appendFile(`${JSON.stringify(value)}\n`);
    },
    async *values() {
      let rest = '';
      // `node:readline` would also split at U+2028 and U+2029, which JSON does not escape.
      for await (const chunk of file.createReadStream({ start: 0, encoding: 'utf8' })) {
        const lines = `${rest}${String(chunk)}`.split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines) yield JSON.parse(line) as Value;
      }
    },
    [Symbol.asyncDispose]: () => file.close(),
  };
}
