import type { Target } from './target.ts';

/** What a server and its peers have used so far, each counted from their start. */
export type Counters = {
  /** Processor time of the server's process, in milliseconds. */
  cpuMs: number;
  /** Calls to other services than the database. */
  calls: number;
};

/** A server that runs, with users who are signed in. Leaving the scope that uses it ends it. */
export type Running = AsyncDisposable & {
  url: string;
  /** One for each signed-in user, good for the next minutes. */
  targets(): Promise<Target[]>;
  counters(): Promise<Counters>;
};

/** What a variant needs to run. */
export type Place = { databaseUrl: string; users: number; signal: AbortSignal };

/** One of the things that are compared. */
export type Variant = {
  name: string;
  /** Starts it on an empty database of its own, in processes of its own, and signs users in. */
  start(place: Place): Promise<Running>;
};
