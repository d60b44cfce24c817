import type { DatabaseServer } from './database.ts';
import type { Options } from './options.ts';
import type { Results } from './results.ts';

/** What a suite measures with. */
export type Context = {
  options: Options;
  databases: DatabaseServer;
  results: Results;
  /** Tells the person who waits what is going on. */
  tell: (line: string) => void;
  /** Kills every process of the run when the person gives up. */
  signal: AbortSignal;
};

/** What a suite found. */
export type Report = {
  /** Markdown. */
  text: string;
  /** What has to hold on any machine and did not: wrong answers and wrong counts, never slowness. */
  failures: string[];
};

/** A set of measurements that belong together. */
export type Suite = {
  /** What it measures, in a line. */
  summary: string;
  run(context: Context): Promise<Report>;
};
