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

/** Request that the load generator repeats. */
export type Target = {
  path: string;
  headers: Record<string, string>;
  /** Text that the answer must contain. */
  expected: string;
};

/**
 * Asks once for each target, all at the same time, and gives what was answered wrongly: an answer that
 * is not 200, or that does not tell of the user who asked.
 */
export async function checkAnswers(
  { url }: Pick<Running, 'url'>,
  targets: Awaited<ReturnType<Running['targets']>>,
): Promise<string[]> {
  const answers = await Promise.all(
    targets.map(async ({ path, headers, expected }) => {
      const response = await fetch(url + path, { headers });
      const body = await response.text();
      if (response.status !== 200) return `${path} answered ${response.status}`;
      return body.includes(expected) ? undefined : `${path} answered for somebody else`;
    }),
  );
  return answers.filter((answer) => answer !== undefined);
}
