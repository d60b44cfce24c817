import { performance } from 'node:perf_hooks';
import pg from 'pg';
import { answerParent } from '../../process/child.ts';

/** A queue that is measured, opened on a database. */
export type Queue = {
  /** Adds jobs with the keys `1` … `count` as fast as possible, in a number of groups if the queue has groups. */
  fill(count: number, groups: number): Promise<void>;
  /** Adds one job, as an application does. */
  send(key: string): Promise<void>;
  /**
   * Works off the jobs, none of which does anything, `concurrency` at once.
   * @param onJob Told of each job when it starts.
   * @returns Ends the work when the jobs in progress have ended.
   */
  work(options: {
    concurrency: number;
    onJob: (key: string) => void;
  }): Promise<() => Promise<void>>;
  /** Jobs that have not ended. */
  countLeft(): Promise<number>;
};

export type OpenQueue = (settings: { databaseUrl: string; poolSize: number }) => Promise<Queue>;

/** Rate of completed jobs. */
export type Drained = {
  /** Jobs that ended after the warm-up, by the database, and the seconds. */
  jobs: number;
  seconds: number;
  /** Processor time of this process meanwhile. */
  cpuMs: number;
  /** All jobs that were started, those of them more than once, and what is left in the database. */
  started: number;
  repeated: number;
  left: number;
};

/**
 * Warm-up that is not counted, because connections open and code compiles: a share of the time, or of the
 * jobs where those are gone sooner.
 */
const WARM_UP = { time: 0.3, jobs: 0.2 };
/** The collector's sources. */
const GROUPS = 200;
/** Poll interval for the end of the last jobs. */
const LOOK_MS = 10;

/** The questions that the process of a queue answers. */
export type QueueProcess = ReturnType<typeof methodsOf>;

/** Makes this process one that is asked to measure a queue. */
export function serveQueue(open: OpenQueue): void {
  answerParent(methodsOf(open));
}

function methodsOf(open: OpenQueue) {
  let queue: Queue;
  let databaseUrl: string;
  let stop: () => Promise<void>;
  const startedAt: [key: string, at: number][] = [];

  const look = async () => ({ left: await queue.countLeft(), at: now() });

  const work = async (concurrency: number, onJob: () => void) => {
    stop = await queue.work({
      concurrency,
      onJob(key) {
        startedAt.push([key, now()]);
        onJob();
      },
    });
  };

  return {
    async open(settings: Parameters<OpenQueue>[0]): Promise<void> {
      ({ databaseUrl } = settings);
      queue = await open(settings);
    },

    /** Fills the queue, and works it off for so long. */
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
      await tidy(databaseUrl);
      const warm = Promise.withResolvers<void>();
      const all = Promise.withResolvers<void>();
      await work(concurrency, () => {
        if (startedAt.length === Math.ceil(jobs * WARM_UP.jobs)) warm.resolve();
        if (startedAt.length === jobs) all.resolve();
      });
      await Promise.race([warm.promise, timeout(seconds * WARM_UP.time)]);
      const [begin, cpu] = [await look(), process.cpuUsage()];
      await Promise.race([all.promise, timeout(seconds)]);
      let end = await look();
      while (startedAt.length === jobs && end.left > 0) {
        await timeout(LOOK_MS / 1000);
        end = await look();
      }
      const { user, system } = process.cpuUsage(cpu);
      await stop();
      const keys = new Set(startedAt.map(([key]) => key));
      return {
        jobs: begin.left - end.left,
        seconds: (end.at - begin.at) / 1000,
        cpuMs: (user + system) / 1000,
        started: startedAt.length,
        repeated: startedAt.length - keys.size,
        left: await queue.countLeft(),
      } satisfies Drained;
    },

    /** Begins to work and goes on until `stop`. */
    work: ({ concurrency }: { concurrency: number }) => work(concurrency, () => undefined),

    /** Adds jobs at an even rate; gives when each was, in milliseconds since 1970. */
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
      const sent = Array.from({ length: count }, async (_, nth): Promise<[string, number]> => {
        await timeout(Math.max(0, nth / perSecond - (now() - begin) / 1000));
        const at = now();
        const key = `sent-${prefix}${nth}`;
        await queue.send(key);
        return [key, at];
      });
      return Promise.all(sent);
    },

    /** When each job started, in milliseconds since 1970. */
    started: () => startedAt,
    stop: () => stop(),
    left: () => queue.countLeft(),
    fill: ({ count, groups }: { count: number; groups: number }) => queue.fill(count, groups),
  };
}

/** As it is in service: the planner knows the table. */
async function tidy(databaseUrl: string): Promise<void> {
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
