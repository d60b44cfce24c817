import { existsSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseRetryAfter } from '@oselya/kit/retry-after';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { type CollectorAddress, refusal, requestCollector } from '../collector-client.ts';
import { CommandError } from '../command-error.ts';
import { deliver } from '../ingest/deliver.ts';
import { createPause } from '../ingest/pause.ts';
import { recordKey } from '../ingest/record-key.ts';

const FOLDER = join(import.meta.dirname, '../../../../samples');

/** The folder with the pictures of the sample listings. */
export const SAMPLE_IMAGES = join(FOLDER, 'images');

/** Where the pictures are served when all ports are the default ones; the listings name it. */
const WRITTEN_ORIGIN = 'http://127.0.0.1:8002';

const QUEUE_POLL_MS = 200;

/** Where the sample listings go, and whence their pictures come. */
export type SampleOptions = {
  dataDir: string;
  /** With a key where it asks for one: for `ingest` and `admin`. */
  collector: CollectorAddress;
  /** Where the pictures are served. */
  imagesOrigin: string;
  signal: AbortSignal;
};

const marker = (dataDir: string) => join(dataDir, 'samples-loaded');

/** Whether the sample listings were all sent by an earlier start on this data folder. */
export function samplesLoaded(dataDir: string): boolean {
  return existsSync(marker(dataDir));
}

/**
 * Sends the sample listings to the public ingest API, one after another, since later ones continue the story of
 * earlier ones. A load that was stopped in the middle goes on without doubling anything, except for what names
 * pictures, where these are served at another address now.
 * @param onRetry Told why a listing was not taken and is tried again, such as a limit.
 * @returns How many were sent.
 * @throws CommandError where the collector does not take them; AbortError.
 */
export async function loadSamples(
  { dataDir, collector, imagesOrigin, signal }: SampleOptions,
  onRetry: (reason: string) => void,
): Promise<number> {
  const text = await readFile(join(FOLDER, 'listings.jsonl'), 'utf8');
  const lines = text.replaceAll(WRITTEN_ORIGIN, imagesOrigin).trim().split('\n');
  const how = { collector, pause: createPause(), signal, onRetry };
  for (const [index, line] of lines.entries()) {
    // The file is one of this repository.
    const payload = JSON.parse(line) as object;
    const delivery = await deliver(payload, recordKey('sample', index + 1, payload), how);
    if (delivery.outcome === 'refused' || delivery.outcome === 'failed') {
      throw new CommandError(delivery.reason);
    }
  }
  writeFileSync(marker(dataDir), `${new Date().toISOString()}\n`);
  return lines.length;
}

const figure = Type.Union([Type.Integer(), Type.Null()]);

/** As much of `GET /admin/queue` as is told. Contract 4, Operations. */
const queueAnswer = Type.Object({
  counts: Type.Object({
    pending: Type.Integer(),
    processing: Type.Integer(),
    completed: figure,
    invalid: figure,
    failed: figure,
  }),
});

/** All payloads of the collector by status; null for what it has not counted yet. */
export type QueueCounts = Static<typeof queueAnswer>['counts'];

/**
 * Waits until nothing is pending or in progress.
 * @throws CommandError where the collector does not say; AbortError.
 */
export async function queueDrained({
  collector,
  signal,
}: Pick<SampleOptions, 'collector' | 'signal'>): Promise<QueueCounts> {
  for (;;) {
    const answer = await requestCollector(collector, '/api/v1/admin/queue');
    const { status, headers, body } = answer;
    let waitMs = QUEUE_POLL_MS;
    if (status === 200 && Value.Check(queueAnswer, body)) {
      const { counts } = body;
      if (counts.pending + counts.processing === 0) return counts;
    } else if (status === 503) {
      waitMs = Math.max(waitMs, parseRetryAfter(headers.get('retry-after')) ?? 0);
    } else {
      throw new CommandError(refusal(answer, { what: 'to show its queue', scope: 'admin' }));
    }
    await sleep(waitMs, undefined, { signal });
  }
}
