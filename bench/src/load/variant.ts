import type { Target } from './target.ts';

/** Processor time of a server and its peers, each since its start. */
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

/** Requirements of a variant. */
export type VariantSetup = { databaseUrl: string; users: number; signal: AbortSignal };

/** Compared server. */
export type Variant = {
  name: string;
  /** Starts it on a separate empty database, in separate processes, and signs users in. */
  start(place: VariantSetup): Promise<Running>;
};
