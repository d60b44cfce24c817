import { hash } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseRetryAfter } from '@oselya/kit/retry-after';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { CommandError } from '../command.ts';
import { type CollectorConnection, describeRejection, requestCollector } from '../http.ts';
import { createPayloadSender } from '../ingest/deliver.ts';
import { sanitizeLine } from '../terminal.ts';

const SAMPLES_FOLDER = join(import.meta.dirname, '../../../../samples');

export const SAMPLE_IMAGES_FOLDER = join(SAMPLES_FOLDER, 'images');

const SAMPLE_FILE_ORIGIN = 'http://127.0.0.1:8002';

const QUEUE_POLL_MS = 200;

/** Maximum delay of the summary, whose suggested searches need the samples. */
const SAMPLES_TIMEOUT_MS = 15_000;

export type SamplesState = number | 'being sent';

export type SampleOptions = {
  dataDir: string;
  /** Collector to send to. Its API key needs the scopes `ingest` and `admin`. */
  collector: CollectorConnection;
  imagesOrigin: string;
  signal: AbortSignal;
  onProcessed: () => Promise<void> | undefined;
  /** Called with progress messages, even after `sendSamples` has returned. */
  report: (line: string) => void;
  timeoutMs?: number;
};

const getMarkerPath = (dataDir: string) => join(dataDir, 'samples-loaded');

/** Returns whether all sample listings of this data folder have been sent. */
export function hasLoadedSamples(dataDir: string): boolean {
  return existsSync(getMarkerPath(dataDir));
}

/**
 * Sends the sample listings and reports their processing. Returns early, and continues in the background, after the
 * first retry or after 15 s. Never throws.
 * @returns The number of sent listings, `being sent` if sending continues in the background, or 0 if it failed or was
 *   aborted.
 */
export function sendSamples(options: SampleOptions): Promise<SamplesState> {
  const { signal, report, timeoutMs = SAMPLES_TIMEOUT_MS } = options;
  const delayNotice = Promise.withResolvers<SamplesState>();
  const delivery = sendAll(options, (reason) => {
    report(`Sending the sample listings: ${reason}`);
    delayNotice.resolve('being sent');
  });
  const timeout = sleep(timeoutMs, 'being sent' as const, { signal, ref: false });
  void reportOutcome(delivery, options);
  return Promise.race<SamplesState>([delivery, delayNotice.promise, timeout]).catch(() => 0);
}

/** Sends the samples in order, because later samples change earlier ones. A repeated call adds no duplicates. */
async function sendAll(
  { dataDir, collector, imagesOrigin, signal }: SampleOptions,
  onRetry: (reason: string) => void,
): Promise<number> {
  const text = await readFile(join(SAMPLES_FOLDER, 'listings.jsonl'), 'utf8');
  const lines = text.replaceAll(SAMPLE_FILE_ORIGIN, imagesOrigin).trim().split('\n');
  const deliver = createPayloadSender({ collector, onRetry });
  for (const [index, line] of lines.entries()) {
    const key = `sample-${index + 1}-${hash('sha256', line)}`;
    const delivery = await deliver(JSON.parse(line) as object, key, signal);
    if (delivery.outcome === 'rejected' || delivery.outcome === 'failed') {
      throw new CommandError(delivery.reason);
    }
  }
  writeFileSync(getMarkerPath(dataDir), `${new Date().toISOString()}\n`);
  return lines.length;
}

async function reportOutcome(
  delivery: Promise<number>,
  { collector, signal, onProcessed, report }: SampleOptions,
): Promise<void> {
  let failure = 'The sample listings could not all be sent';
  let advice = ' The next start continues.';
  try {
    await delivery;
    [failure, advice] = ['The state of the sample listings is unknown', ''];
    const { completed, invalid, failed } = await waitUntilProcessed(collector, signal);
    await onProcessed();
    // The counts include earlier payloads of this database. A count is null until the collector has counted once.
    const counts =
      completed === null || invalid === null || failed === null
        ? ''
        : ` The collector has ${completed} completed, ${invalid} no listing, ${failed} failed.`;
    report(`The sample listings are processed.${counts}`);
  } catch (error) {
    const reason = sanitizeLine(error instanceof Error ? error.message : String(error));
    report(`${failure}: ${reason.replace(/\.$/, '')}.${advice}`);
  }
}

const nullableCountSchema = Type.Union([Type.Integer(), Type.Null()]);

/** Fields of `GET /admin/queue` that this module uses. Contract 4, Operations. */
const queueSchema = Type.Object({
  counts: Type.Object({
    pending: Type.Integer(),
    processing: Type.Integer(),
    completed: nullableCountSchema,
    invalid: nullableCountSchema,
    failed: nullableCountSchema,
  }),
});

/**
 * Waits until no job is pending or in progress.
 * @throws CommandError if the collector cannot be reached or its response is not a queue; AbortError if the signal
 *   aborts.
 */
async function waitUntilProcessed(
  collector: CollectorConnection,
  signal: AbortSignal,
): Promise<Static<typeof queueSchema>['counts']> {
  for (;;) {
    const response = await requestCollector(collector, '/api/v1/admin/queue');
    const { status, headers, body } = response;
    let waitMs = QUEUE_POLL_MS;
    if (status === 200 && Value.Check(queueSchema, body)) {
      const { counts } = body;
      if (counts.pending + counts.processing === 0) return counts;
    } else if (status === 503) {
      waitMs = Math.max(waitMs, parseRetryAfter(headers.get('retry-after')) ?? 0);
    } else {
      const rejectionOptions = { subject: 'to show its queue', scope: 'admin' };
      throw new CommandError(describeRejection(response, rejectionOptions));
    }
    await sleep(waitMs, undefined, { signal });
  }
}
