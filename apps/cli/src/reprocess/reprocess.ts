import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ListingSelection, Maintenance, RepeatedExtraction } from '@oselya/collector';
import { formatJson } from '@oselya/inventory/text';
import type { Context } from '../command.ts';
import { showProgress, silentProgress } from '../progress.ts';
import {
  countExtraction,
  createReprocessSummary,
  describeExtraction,
  describeExtractions,
  describeFailure,
  describeImages,
  describeWritten,
  type ImagesSummary,
} from './summary.ts';

type ReprocessOptions = {
  selection: ListingSelection;
  limit: number;
  dryRun: boolean;
  yes: boolean;
  /** Signal that stops the run. Writes in progress finish. */
  signal: AbortSignal;
  context: Pick<Context, 'print' | 'stdout' | 'stderr'>;
  /** Asks the operator for confirmation. The signal cancels the prompt. */
  confirm: (question: string, signal?: AbortSignal) => Promise<boolean>;
};

/** Reason and position of a run that stopped early. */
type EarlyStop = {
  /** ID up to which all selected listings have been processed. Undefined if there is none. */
  after: number | undefined;
  /** Failure of the run. Undefined if the operator stopped it. */
  error?: unknown;
};

/** Result of a run. `earlyStop` is set if the run stopped early. */
type ReprocessResult = { failedCount: number; earlyStop: EarlyStop | undefined };

/**
 * Reads listings again, prints the changes (with `verbose`) or their counts, and writes them after confirmation. With
 * `yes`, each listing is written after its extraction; with `dryRun`, none. A stopped or failed run still asks for
 * confirmation, because its model calls have already been paid for.
 */
export async function reprocess(
  { reprocess: service, parallel }: Pick<Maintenance, 'reprocess' | 'parallel'>,
  options: ReprocessOptions & { verbose: boolean },
): Promise<ReprocessResult> {
  const { selection, verbose, limit, dryRun, yes, signal, context, confirm } = options;
  const { print, stdout, stderr } = context;
  const { after } = selection;
  const summary = createReprocessSummary();
  const { read, written } = summary;
  let progress = silentProgress;
  const report = (lines: readonly string[]) => {
    if (lines.length > 0) progress.clear();
    print(...lines);
  };
  async function write(extraction: RepeatedExtraction): Promise<void> {
    const result = await service.write(extraction);
    written[result.outcome] += 1;
    report(describeFailure(extraction.listingId, result));
  }
  const createResult = (earlyStop: EarlyStop | undefined): ReprocessResult => {
    return {
      failedCount: read.failed + written.failed + written.kept + written.incomplete,
      earlyStop,
    };
  };

  await using spool = await openSpool<RepeatedExtraction>();
  const total = Math.min(limit, await service.count(selection));
  // Verbose output on a terminal replaces the progress bar.
  if (!verbose || stdout.isTTY !== true) {
    progress = showProgress({ unit: 'listings', total }, stderr);
  }
  const earlyStop = await processListings(
    service.read(selection, { limit, signal, dryRun }),
    async (extraction) => {
      countExtraction(summary, extraction);
      if (verbose || extraction.outcome === 'failed') report(describeExtraction(extraction));
      if (extraction.outcome !== 'read' || dryRun) return;
      await (yes ? write(extraction) : spool.add(extraction));
    },
    {
      after,
      signal,
      parallel: yes ? parallel : 1,
      onDone: (count) => progress.update(count, `${summary.changingCount} would change`),
    },
  );
  progress.stop();
  print(...describeExtractions(summary));
  if (yes) {
    print(...describeWritten(summary));
    return createResult(earlyStop);
  }
  const question =
    earlyStop === undefined
      ? `Write ${read.read} listings?`
      : `It stopped. Write the ${read.read} listings read so far?`;
  // A stopped run still asks for confirmation. Another Ctrl-C answers no.
  const questionSignal = earlyStop === undefined ? signal : undefined;
  if (dryRun || read.read === 0 || !(await confirm(question, questionSignal))) {
    print('Nothing was changed.');
    const isStopped = earlyStop !== undefined || signal.aborted;
    return createResult(dryRun || !isStopped ? earlyStop : { ...earlyStop, after });
  }
  progress = showProgress({ unit: 'listings', total: read.read }, stderr);
  const writeStop = await processListings(spool.values(), write, {
    after,
    signal: questionSignal,
    parallel,
    onDone: (count) => progress.update(count),
  });
  progress.stop();
  print(...describeWritten(summary));
  return createResult(writeStop ?? earlyStop);
}

/**
 * Counts the listings whose images lack a description by the current prompt and model. Describes the images after
 * confirmation, or without it if `yes`. With `dryRun`, it only counts.
 */
export async function reprocessImages(
  service: Maintenance['reprocessImages'],
  { selection, limit, dryRun, yes, signal, context, confirm }: ReprocessOptions,
): Promise<ReprocessResult> {
  const { print, stderr } = context;
  const { after } = selection;
  const summary: ImagesSummary = { described: 0, left: 0, failed: 0 };
  const total = Math.min(limit, await service.count(selection));
  print(`${total} listings have images that another prompt or model described, or none.`);
  const question = `Describe those of ${total} listings?`;
  if (dryRun || total === 0 || !(yes || (await confirm(question, signal)))) {
    print('Nothing was changed.');
    return { failedCount: 0, earlyStop: signal.aborted ? { after } : undefined };
  }
  const progress = showProgress({ unit: 'listings', total }, stderr);
  const earlyStop = await processListings(
    service.describe(selection, { limit, signal }),
    async (result) => {
      summary[result.outcome] += 1;
      const lines = describeFailure(result.listingId, result);
      if (lines.length > 0) progress.clear();
      print(...lines);
    },
    { after, signal, parallel: 1, onDone: (count) => progress.update(count) },
  );
  progress.stop();
  print(...describeImages(summary));
  return { failedCount: summary.failed, earlyStop };
}

/**
 * Processes listings ordered by ID, several concurrently. Never throws.
 * @param options.after ID of the last listing already processed.
 * @returns Undefined if the run neither failed nor was stopped.
 */
async function processListings<Listing extends { listingId: number }>(
  listings: AsyncIterable<Listing>,
  work: (listing: Listing) => Promise<void>,
  options: {
    after: number | undefined;
    signal: AbortSignal | undefined;
    parallel: number;
    onDone: (count: number) => void;
  },
): Promise<EarlyStop | undefined> {
  const { signal, parallel, onDone } = options;
  const jobs = new Set<Promise<void>>();
  const failures: { listingId: number; error: unknown }[] = [];
  let { after } = options;
  let count = 0;
  let readError: unknown;
  try {
    for await (const listing of listings) {
      const { listingId } = listing;
      if (jobs.size >= parallel) await Promise.race(jobs);
      if (failures.length > 0) break;
      const job = work(listing)
        .catch((error: unknown) => void failures.push({ listingId, error }))
        .finally(() => jobs.delete(job));
      jobs.add(job);
      after = listingId;
      count += 1;
      onDone(count);
      if (signal?.aborted === true) break;
    }
  } catch (error) {
    readError = error;
  }
  await Promise.all(jobs);
  // A resumed run starts at the first failed listing.
  const [failure] = failures.toSorted((one, other) => one.listingId - other.listingId);
  if (failure) return { error: failure.error, after: failure.listingId - 1 || undefined };
  if (signal?.aborted === true) return { after };
  return readError === undefined ? undefined : { after, error: readError };
}

/** Opens a queue of values in an unlinked file, because the values may not fit in memory. */
async function openSpool<Value>() {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-'));
  let file: FileHandle;
  try {
    file = await open(join(folder, 'values.jsonl'), 'wx+');
  } finally {
    await rm(folder, { recursive: true });
  }
  return {
    // `readLines` also splits at U+2028 and U+2029, which formatJson escapes.
    add: (value: Value) => file.appendFile(`${formatJson(value)}\n`),
    async *values(): AsyncGenerator<Value> {
      for await (const line of file.readLines({ start: 0 })) yield JSON.parse(line) as Value;
    },
    [Symbol.asyncDispose]: () => file.close(),
  };
}
