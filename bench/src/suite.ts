import type { DatabaseServer } from './database.ts';
import type { Options } from './options.ts';
import type { Results } from './results.ts';

/** Environment of a suite. */
export type Context = {
  options: Options;
  databases: DatabaseServer;
  results: Results;
  /** Logs progress to standard error. */
  logProgress: (line: string) => void;
  /** Signal that kills every process of the run. */
  signal: AbortSignal;
};

/** Results of a suite. */
export type Report = {
  /** Markdown. */
  text: string;
  /** Failed checks: wrong answers and wrong counts, never slowness. */
  failures: string[];
};

/** Set of related measurements. */
export type Suite = {
  /** Summary in one line. */
  summary: string;
  run(context: Context): Promise<Report>;
};
