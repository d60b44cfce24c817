import { existsSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartError } from '@oselya/kit';

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
};

/**
 * Sends the sample listings to the public ingest API, once for a data folder. Each line has its own
 * idempotency key, so a load that was killed in the middle goes on without doubling anything.
 * @returns How many were sent now: 0 when they had been before.
 * @throws StartError where the collector asks for an API key.
 */
export async function loadSamples(options: SampleOptions): Promise<number> {
  const marker = join(options.dataDir, 'samples-loaded');
  if (existsSync(marker)) return 0;
  const text = await readFile(join(FOLDER, 'listings.jsonl'), 'utf8');
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  for (const [index, line] of lines.entries()) {
    await ingest(
      line.replaceAll(WRITTEN_ORIGIN, options.imagesOrigin),
      `sample-${index + 1}`,
      options,
    );
  }
  writeFileSync(marker, `${new Date().toISOString()}\n`);
  return lines.length;
}

async function ingest(
  payload: string,
  key: string,
  { collectorUrl, signal }: SampleOptions,
): Promise<void> {
  for (;;) {
    const answer = await fetch(`${collectorUrl}/api/v1/ingest`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: payload,
      signal,
    });
    if (answer.status === 202) {
      await answer.body?.cancel();
      return;
    }
    const text = await answer.text();
    if (answer.status === 401) {
      throw new StartError(
        'The sample listings cannot be sent, because COLLECTOR_AUTH=required asks for an API key: run oselya dev without it',
      );
    }
    if (answer.status !== 429) throw new Error(`${key} was refused with ${answer.status}: ${text}`);
    const seconds = Number(answer.headers.get('retry-after') ?? 1);
    await sleep(seconds * 1000, undefined, { signal });
  }
}

export type QueueCounts = Record<string, number>;

/** Waits until nothing is pending or in progress, and gives the counts by status. */
export async function queueDrained({ collectorUrl, signal }: SampleOptions): Promise<QueueCounts> {
  for (;;) {
    const answer = await fetch(`${collectorUrl}/api/v1/admin/queue`, { signal });
    const { counts } = (await answer.json()) as { counts: QueueCounts };
    if (!counts['pending'] && !counts['processing']) return counts;
    await sleep(QUEUE_POLL_MS, undefined, { signal });
  }
}
