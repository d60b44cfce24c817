import { performance } from 'node:perf_hooks';
import pg from 'pg';
import { serveMethods } from '../../process/child.ts';

/** Measured queue, connected to its database. */
export type Queue = {
  /** Adds jobs with the keys `1` … `count`, divided into `groups` groups if the queue supports groups. */
  fill(count: number, groups: number): Promise<void>;
  /** Adds one job, as an application would. */
  send(key: string): Promise<void>;
  /**
   * Starts running jobs, which do nothing, with the given concurrency.
   * @param onJob Called when a job starts.
   * @returns A function that stops the queue. A stopped peer may leave jobs in progress unfinished.
   */
  work(options: {
    concurrency: number;
    onJob: (key: string) => void;
  }): Promise<() => Promise<void>>;
  /** Returns the number of jobs that have not ended. */
  countRemaining(): Promise<number>;
};

/** Settings of graphile-worker's local queue and of its batches of completed jobs. */
export type Batching = { localQueueSize: number; completeJobBatchDelayMs: number };

/** Connects a queue to its database. */
type OpenQueue = (settings: {
  databaseUrl: string;
  poolSize: number;
  /** Settings for graphile-worker; undefined for its defaults. */
  batching?: Batching | undefined;
}) => Promise<Queue>;

/** Results of running empty jobs for a limited time. */
export type DrainResult = {
  /** Number of jobs that ended after the warm-up, read from the database. */
  jobs: number;
  seconds: number;
  /** Processor time of this process after the warm-up. */
  cpuMs: number;
  /** Number of job starts. */
  startedCount: number;
  /** Number of repeated starts of a job. */
  restartedCount: number;
  /** Number of jobs that have not ended, read from the database. */
  remainingCount: number;
};

/**
 * Warm-up, during which connections are opened and code is compiled. It ends after this share of the time or of the
 * jobs, whichever comes first.
 */
const WARM_UP = { time: 0.3, jobs: 0.2 };
/** Number of job groups. The collector uses its sources as groups. */
const GROUPS = 200;
const POLL_MS = 10;

/** Methods of a queue process. */
export type QueueProcess = ReturnType<typeof createMethods>;

/** Serves the methods of a queue process to the parent. */
export function serveQueue(open: OpenQueue): void {
  serveMethods(createMethods(open));
}

function createMethods(open: OpenQueue) {
  let queue: Queue;
  let databaseUrl: string;
  let stop: () => Promise<void>;
  const starts: [key: string, at: number][] = [];

  const readProgress = async () => ({ remainingCount: await queue.countRemaining(), at: now() });

  const work = async (concurrency: number, onJob: () => void) => {
    stop = await queue.work({
      concurrency,
      onJob(key) {
        starts.push([key, now()]);
        onJob();
      },
    });
  };

  return {
    async open(settings: Parameters<OpenQueue>[0]): Promise<void> {
      ({ databaseUrl } = settings);
      queue = await open(settings);
    },

    /** Fills the queue and, after a warm-up, runs its jobs for the given number of seconds or until all have ended. */
    async drain({
      jobs,
      seconds,
      concurrency,
    }: {
      jobs: number;
      seconds: number;
      concurrency: number;
    }) {
      await queue.fill(jobs, GROUPS);
      await updateStatistics(databaseUrl);
      const warmedUp = Promise.withResolvers<void>();
      const allStarted = Promise.withResolvers<void>();
      await work(concurrency, () => {
        if (starts.length === Math.ceil(jobs * WARM_UP.jobs)) warmedUp.resolve();
        if (starts.length === jobs) allStarted.resolve();
      });
      await Promise.race([warmedUp.promise, timeout(seconds * WARM_UP.time)]);
      const [progressBefore, cpuBefore] = [await readProgress(), process.cpuUsage()];
      await Promise.race([allStarted.promise, timeout(seconds)]);
      let progressAfter = await readProgress();
      while (starts.length === jobs && progressAfter.remainingCount > 0) {
        await timeout(POLL_MS / 1000);
        progressAfter = await readProgress();
      }
      const { user, system } = process.cpuUsage(cpuBefore);
      await stop();
      const keys = new Set(starts.map(([key]) => key));
      return {
        jobs: progressBefore.remainingCount - progressAfter.remainingCount,
        seconds: (progressAfter.at - progressBefore.at) / 1000,
        cpuMs: (user + system) / 1000,
        startedCount: starts.length,
        restartedCount: starts.length - keys.size,
        remainingCount: await queue.countRemaining(),
      } satisfies DrainResult;
    },

    /** Runs jobs until `stop`. */
    work: ({ concurrency }: { concurrency: number }) => work(concurrency, () => undefined),

    /** Adds jobs at a constant rate; returns their keys and send times, in milliseconds since 1970. */
    async send({
      count,
      jobsPerSecond,
      prefix = '',
    }: {
      count: number;
      jobsPerSecond: number;
      prefix?: string;
    }) {
      const startedAt = now();
      const sentJobs = Array.from(
        { length: count },
        async (_, index): Promise<[string, number]> => {
          await timeout(Math.max(0, index / jobsPerSecond - (now() - startedAt) / 1000));
          const at = now();
          const key = `sent-${prefix}${index}`;
          await queue.send(key);
          return [key, at];
        },
      );
      return Promise.all(sentJobs);
    },

    /** Returns the keys and start times of jobs, in milliseconds since 1970. */
    starts: () => starts,
    stop: () => stop(),
    countRemaining: () => queue.countRemaining(),
    fill: ({ count, groups }: { count: number; groups: number }) => queue.fill(count, groups),
  };
}

async function updateStatistics(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query('vacuum analyze');
  await client.end();
}

const now = () => performance.timeOrigin + performance.now();

function timeout(seconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, seconds * 1000);
  });
}
