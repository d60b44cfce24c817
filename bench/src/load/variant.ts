/** Resource usage of a server since its start. */
export type Counters = {
  /** Processor time of the server's process, in milliseconds. */
  cpuMs: number;
  /** Number of calls to services other than the database. */
  calls: number;
};

/** Running server with signed-in users, which stops at the end of the scope. */
export type Running = AsyncDisposable & {
  url: string;
  /** Returns one request for each signed-in user. The requests stay valid for a few minutes. */
  targets(): Promise<Target[]>;
  counters(): Promise<Counters>;
};

export type VariantSetup = { databaseUrl: string; users: number; signal: AbortSignal };

export type Variant = {
  name: string;
  /** Starts the server on an empty database, in separate processes, and signs users in. */
  start(setup: VariantSetup): Promise<Running>;
};

export type Target = {
  path: string;
  headers: Record<string, string>;
  /** Text that the response must contain. */
  expected: string;
};

/**
 * Sends all requests concurrently, once each.
 * @returns Failures: statuses other than 200, and responses without the expected text.
 */
export async function checkAnswers(
  { url }: Pick<Running, 'url'>,
  targets: Awaited<ReturnType<Running['targets']>>,
): Promise<string[]> {
  const failures = await Promise.all(
    targets.map(async ({ path, headers, expected }) => {
      const response = await fetch(url + path, { headers });
      const body = await response.text();
      if (response.status !== 200) return `${path} responded with status ${response.status}`;
      return body.includes(expected) ? undefined : `${path} responded with another user`;
    }),
  );
  return failures.filter((failure) => failure !== undefined);
}
