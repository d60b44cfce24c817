import { performance } from 'node:perf_hooks';
import pg from 'pg';
import { serveMethods } from '../../process/child.ts';

/** Measured queue with an open database. */
export type Queue = {
  /** Adds jobs with the keys `1` … `count`, in a number of groups if the queue has groups. */
  fill(count: number, groups: number): Promise<void>;
  /** Adds one job, as an application does. */
  send(key: string): Promise<void>;
  /**
   * Runs the empty jobs with a concurrency limit.
   * @param onJob Called when a job starts.
   * @returns A function that stops the queue after the jobs in progress.
   */
  work(options: {
    concurrency: number;
    onJob: (key: string) => void;
  }): Promise<() => Promise<void>>;
  /** Returns the number of jobs that have not ended. */
  countRemaining(): Promise<number>;
};

/** Settings of graphile-worker's local queue. */
export type Batching = { localQueueSize: number; completeJobBatchDelayMs: number };

/** Opens the database of a queue. */
type OpenQueue = (settings: {
  databaseUrl: string;
  poolSize: number;
  /** Settings for graphile-worker; undefined for its defaults. */
  batching?: Batching | undefined;
}) => Promise<Queue>;

/** Rate of completed jobs. */
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
 * Warm-up, during which connections are opened and code is compiled: a share of the time, or of the jobs if those end
 * sooner.
 */
const WARM_UP = { time: 0.3, jobs: 0.2 };
/** Number of sources of the collector. */
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

    /** Fills the queue and runs its jobs for a number of seconds. */
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
      const warm = Promise.withResolvers<void>();
      const all = Promise.withResolvers<void>();
      await work(concurrency, () => {
        if (starts.length === Math.ceil(jobs * WARM_UP.jobs)) warm.resolve();
        if (starts.length === jobs) all.resolve();
      });
      await Promise.race([warm.promise, timeout(seconds * WARM_UP.time)]);
      const [begin, cpu] = [await readProgress(), process.cpuUsage()];
      await Promise.race([all.promise, timeout(seconds)]);
      let end = await readProgress();
      while (starts.length === jobs && end.remainingCount > 0) {
        await timeout(POLL_MS / 1000);
        end = await readProgress();
      }
      const { user, system } = process.cpuUsage(cpu);
      await stop();
      const keys = new Set(starts.map(([key]) => key));
      return {
        jobs: begin.remainingCount - end.remainingCount,
        seconds: (end.at - begin.at) / 1000,
        cpuMs: (user + system) / 1000,
        startedCount: starts.length,
        restartedCount: starts.length - keys.size,
        remainingCount: await queue.countRemaining(),
      } satisfies DrainResult;
    },

    /** Runs jobs until `stop`. */
    work: ({ concurrency }: { concurrency: number }) => work(concurrency, () => undefined),

    /** Adds jobs at a constant rate; returns their keys and times in milliseconds since 1970. */
    async send({
      count,
      perSecond,
      prefix = '',
    }: {
      count: number;
      perSecond: number;
      prefix?: string;
    }) {
      const begin = now();
      const sent = Array.from({ length: count }, async (_, index): Promise<[string, number]> => {
        await timeout(Math.max(0, index / perSecond - (now() - begin) / 1000));
        const at = now();
        const key = `sent-${prefix}${index}`;
        await queue.send(key);
        return [key, at];
      });
      return Promise.all(sent);
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
