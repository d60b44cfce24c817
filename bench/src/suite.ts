import type { DatabaseServer } from './database.ts';
import type { Options } from './options.ts';
import type { Results } from './results.ts';

export type Context = {
  options: Options;
  databases: DatabaseServer;
  results: Results;
  /** Logs progress to standard error. */
  logProgress: (line: string) => void;
  /** Kills every process of the run when it aborts. */
  signal: AbortSignal;
};

/** Results of a suite. */
export type Report = {
  /** Markdown. */
  text: string;
  /** Failed checks: wrong responses and wrong counts, never slowness. */
  failures: string[];
};

export type Suite = {
  /** One line for the list of suites. */
  summary: string;
  run(context: Context): Promise<Report>;
};
