import { startProcess } from '../process/parent.ts';
import { percentiles } from '../statistics.ts';
import type { Context } from '../suite.ts';
import { CONCURRENCY, POOL_SIZE } from './concurrency.ts';
import { waitUntil } from './wait-until.ts';
import type { QueueProcess } from './servers/queue.ts';
import { collector, graphileWorker, pgBoss, type Variant } from './variants.ts';

/** From the moment a process begins to add a job to its start in another process, in milliseconds. */
export type Pickup = {
  variant: string;
  jobs: number;
  p50: number;
  p99: number;
  max: number;
};

const PER_SECOND = 100;
/** Jobs that are not counted, because connections are opened and code is compiled. */
const WARM_UP = 100;

/**
 * How long it takes until jobs that come at an even rate are started, by workers that have nothing else to
 * do.
 */
export async function measurePickup(
  context: Context,
): Promise<{ pickups: Pickup[]; failures: string[] }> {
  const pickups: Pickup[] = [];
  const failures: string[] = [];
  for (const variant of [collector, graphileWorker, pgBoss]) {
    context.tell(`pickup: ${variant.name}`);
    const { pickup, failure } = await measure(variant, context);
    await context.results.keep('pickup', pickup);
    pickups.push(pickup);
    if (failure !== undefined) failures.push(failure);
  }
  return { pickups, failures };
}

async function measure(
  { name, module }: Variant,
  { options, databases, signal }: Context,
): Promise<{ pickup: Pickup; failure: string | undefined }> {
  await using database = await databases.createDatabase();
  await using worker = startProcess<QueueProcess>(module, signal);
  await using sender = startProcess<QueueProcess>(module, signal);
  const settings = { databaseUrl: database.url, poolSize: POOL_SIZE };
  await worker.ask('open', settings);
  await sender.ask('open', settings);
  await worker.ask('work', { concurrency: CONCURRENCY });
  const count = Math.round(options.seconds * options.rounds * PER_SECOND) + WARM_UP;
  const sent = await sender.ask('send', { count, perSecond: PER_SECOND });
  const started = await waitUntil(`${name}: every job to start`, async () => {
    const starts = await worker.ask('started');
    return starts.length >= count && starts;
  });
  await worker.ask('stop');
  const startOf = new Map(started);
  const delays = sent.slice(WARM_UP).map(([key, at]) => (startOf.get(key) ?? Infinity) - at);
  const [p50 = 0, p99 = 0, max = 0] = percentiles(delays, [0.5, 0.99, 1]);
  const wrong = started.length !== count || startOf.size !== count;
  return {
    pickup: { variant: name, jobs: delays.length, p50, p99, max },
    failure: wrong ? `${name}: of ${count} jobs ${started.length} were started` : undefined,
  };
}
