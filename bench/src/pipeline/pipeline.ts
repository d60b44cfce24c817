import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTextPayloads } from '../listings/listing.ts';
import { orderForRound } from '../load/rounds.ts';
import type { ImageHost } from '../images/servers/host.ts';
import { startProcess } from '../process/parent.ts';
import type { Context, Report } from '../suite.ts';
import { openJobs } from './jobs.ts';
import { formatReport, type Sample } from './report.ts';
import type { ModelServer } from './servers/model.ts';
import type { WorkerProcess } from './servers/worker.ts';

/** Worker configuration to measure. */
export type Variant = {
  name: string;
  /** Response time of the model server; undefined for the mock. */
  answerMs: number | undefined;
  slots: number;
  listings: number;
  /** Number of images per listing; 0 by default. */
  images?: number;
};

const DIMENSIONS = 384;
const SEED = 20_260_101;
const MODEL_MODULE = new URL('servers/model.ts', import.meta.url);
const HOST_MODULE = new URL('../images/servers/host.ts', import.meta.url);
const WORKER_MODULE = new URL('servers/worker.ts', import.meta.url);

const variants: readonly Variant[] = [
  { name: 'mock, 4 slots', answerMs: undefined, slots: 4, listings: 2000 },
  { name: 'mock, 32 slots', answerMs: undefined, slots: 32, listings: 2000 },
  { name: 'model of 500 ms, 4 slots', answerMs: 500, slots: 4, listings: 2000 },
  { name: 'model of 500 ms, 32 slots', answerMs: 500, slots: 32, listings: 2000 },
  { name: 'mock, 4 slots, 3 images', answerMs: undefined, slots: 4, listings: 2000, images: 3 },
  {
    name: 'model of 500 ms, 32 slots, 3 images',
    answerMs: 500,
    slots: 32,
    listings: 2000,
    images: 3,
  },
];

const smokeVariants: readonly Variant[] = [
  { name: 'mock, 4 slots', answerMs: undefined, slots: 4, listings: 60 },
  { name: 'model of 20 ms, 8 slots', answerMs: 20, slots: 8, listings: 60 },
  { name: 'mock, 4 slots, 2 images', answerMs: undefined, slots: 4, listings: 30, images: 2 },
  {
    name: 'model of 20 ms, 8 slots, 2 images',
    answerMs: 20,
    slots: 8,
    listings: 30,
    images: 2,
  },
];

/** Measures the job rate, the model calls, and the share of time in which slots are busy. */
export async function measurePipeline(context: Context): Promise<Report> {
  const { options, results, logProgress } = context;
  const samples: Sample[] = [];
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const variant of orderForRound(round, options.isSmokeRun ? smokeVariants : variants)) {
      for (const sample of await measureVariant(variant, round, context)) {
        await results.keep('sample', sample);
        samples.push(sample);
        const rate = Math.round((10 * sample.completedCount) / sample.seconds) / 10;
        logProgress(`round ${round}: ${variant.name}, ${sample.payloads}: ${rate} jobs/s`);
      }
    }
  }
  return formatReport(samples, options);
}

/** Runs a worker on a separate database with new listings, then with the same listings again. */
async function measureVariant(
  { name, answerMs, slots, listings, images = 0 }: Variant,
  round: number,
  { databases, signal }: Context,
): Promise<Sample[]> {
  await using scope = new AsyncDisposableStack();
  const { url } = scope.use(await databases.createDatabase());
  const folder = await mkdtemp(join(tmpdir(), 'oselya-bench-'));
  scope.defer(() => rm(folder, { recursive: true, force: true }));
  const model =
    answerMs === undefined ? undefined : scope.use(startProcess<ModelServer>(MODEL_MODULE, signal));
  const host = images === 0 ? undefined : scope.use(startProcess<ImageHost>(HOST_MODULE, signal));
  const env = {
    DATABASE_URL: url,
    DATA_DIR: folder,
    LOG_LEVEL: 'silent',
    MIN_FREE_DISK_MB: '0',
    EMBEDDING_DIMENSIONS: String(DIMENSIONS),
    COLLECTOR_WORKERS: String(slots),
    SSRF_ALLOW: '127.0.0.1',
    ...(model === undefined
      ? {}
      : {
          MODEL_MODE: 'openai',
          MODEL_BASE_URL: await model.call('start', {
            answerMs: answerMs ?? 0,
            dimensions: DIMENSIONS,
          }),
          MODEL_CHAT: 'bench',
          MODEL_EMBEDDING: 'bench',
        }),
  };
  const worker = scope.use(startProcess<WorkerProcess>(WORKER_MODULE, signal));
  await worker.call('migrate', env);
  const jobs = scope.use(await openJobs(url));
  const imageSettings = { host: await host?.call('start'), imagesPerListing: images };
  const payloads = createTextPayloads(listings, { seed: SEED + round }, imageSettings);
  const samples: Sample[] = [];
  for (const kind of ['new', 'unchanged'] as const) {
    await jobs.put(payloads);
    await worker.call('start', env);
    await jobs.waitUntilDrained(signal);
    await worker.call('stop');
    const jobResults = await jobs.readResults(listings, slots);
    const requests = await model?.call('counts');
    const imageRequestCount = (await host?.call('count')) ?? 0;
    const sample = { variant: name, round, payloads: kind, images, imageRequestCount, requests };
    samples.push({ ...sample, ...jobResults });
  }
  return samples;
}
