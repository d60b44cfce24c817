import { existsSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseRetryAfter } from '@oselya/kit/retry-after';
import type { TemporaryKey } from './temporary-key.ts';

const FOLDER = join(import.meta.dirname, '../../../../samples');

/** The folder with the pictures of the sample listings. */
export const SAMPLE_IMAGES = join(FOLDER, 'images');

/** Where the pictures are served when all ports are the default ones; the listings name it. */
const WRITTEN_ORIGIN = 'http://127.0.0.1:8002';

const QUEUE_POLL_MS = 200;

export type SampleOptions = {
  dataDir: string;
  collectorUrl: string;
  /** Where the pictures are served. */
  imagesOrigin: string;
  signal: AbortSignal;
  /** Where the collector asks for one. */
  key: TemporaryKey | undefined;
};

const marker = (dataDir: string) => join(dataDir, 'samples-loaded');

/** Whether the sample listings were all sent by an earlier start on this data folder. */
export function samplesLoaded(dataDir: string): boolean {
  return existsSync(marker(dataDir));
}

/**
 * Sends the sample listings to the public ingest API, once for a data folder. Each line has its own
 * idempotency key, so a load that was killed in the middle goes on without doubling anything.
 * @returns How many were sent now: 0 when they had been before.
 */
export async function loadSamples(options: SampleOptions): Promise<number> {
  if (samplesLoaded(options.dataDir)) return 0;
  const text = await readFile(join(FOLDER, 'listings.jsonl'), 'utf8');
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  for (const [index, line] of lines.entries()) {
    await ingest(
      line.replaceAll(WRITTEN_ORIGIN, options.imagesOrigin),
      `sample-${index + 1}`,
      options,
    );
  }
  writeFileSync(marker(options.dataDir), `${new Date().toISOString()}\n`);
  return lines.length;
}

async function ingest(
  payload: string,
  idempotencyKey: string,
  { collectorUrl, signal, key }: SampleOptions,
): Promise<void> {
  for (;;) {
    const answer = await fetch(`${collectorUrl}/api/v1/ingest`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'idempotency-key': idempotencyKey,
        ...authorization(key),
      },
      body: payload,
      signal,
    });
    if (answer.status === 202) {
      await answer.body?.cancel();
      return;
    }
    const text = await answer.text();
    if (answer.status !== 429)
      throw new Error(`${idempotencyKey} was refused with ${answer.status}: ${text}`);
    await sleep(parseRetryAfter(answer.headers.get('retry-after')) ?? 1000, undefined, { signal });
  }
}

export type QueueCounts = Record<string, number>;

/** Waits until nothing is pending or in progress, and gives the counts by status. */
export async function queueDrained(options: SampleOptions): Promise<QueueCounts> {
  const { collectorUrl, signal, key } = options;
  for (;;) {
    const answer = await fetch(`${collectorUrl}/api/v1/admin/queue`, {
      headers: authorization(key),
      signal,
    });
    const { counts } = (await answer.json()) as { counts: QueueCounts };
    if (!counts['pending'] && !counts['processing']) return counts;
    await sleep(QUEUE_POLL_MS, undefined, { signal });
  }
}

function authorization(key: TemporaryKey | undefined): Record<string, string> {
  return key === undefined ? {} : { authorization: `Bearer ${key.key}` };
}
