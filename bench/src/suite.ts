import type { DatabaseServer } from './database.ts';
import type { Options } from './options.ts';
import type { Results } from './results.ts';

/** Environment of a suite. */
export type Context = {
  options: Options;
  databases: DatabaseServer;
  results: Results;
  /** Tells the person who waits what is going on. */
  tell: (line: string) => void;
  /** Kills every process of the run when the person gives up. */
  signal: AbortSignal;
};

/** Results of a suite. */
export type Report = {
  /** Markdown. */
  text: string;
  /** Failed checks: wrong answers and wrong counts, never slowness. */
  failures: string[];
};

/** A set of measurements that belong together. */
export type Suite = {
  /** Summary in one line. */
  summary: string;
  run(context: Context): Promise<Report>;
};
