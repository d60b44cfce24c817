import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { promisify } from 'node:util';
import { BenchError } from './bench-error.ts';

const run = promisify(execFile);

/** Command of an installed `pgbench`. */
export type Pgbench = { command: string };

/** Returns `pgbench` from PATH or from Debian's package folders; undefined if it is not installed. */
export async function findPgbench(): Promise<Pgbench | undefined> {
  const commands = ['pgbench', ...globSync('/usr/lib/postgresql/*/bin/pgbench').toReversed()];
  for (const command of commands) {
    try {
      await run(command, ['--version']);
      return { command };
    } catch {
      // This command does not exist, but the next one may.
    }
  }
  return undefined;
}

/**
 * Runs pgbench. The settings of the connection are environment variables, because other users can read its arguments.
 * @throws BenchError if pgbench fails.
 */
export async function callPgbench(
  { command }: Pgbench,
  args: readonly string[],
  { databaseUrl, signal }: { databaseUrl: string; signal: AbortSignal },
): Promise<{ stdout: string; stderr: string }> {
  const { hostname, port, username, password, pathname } = new URL(databaseUrl);
  const env = {
    ...process.env,
    PGHOST: hostname,
    PGPORT: port,
    PGUSER: decodeURIComponent(username),
    PGPASSWORD: decodeURIComponent(password),
    PGDATABASE: pathname.slice(1),
  };
  try {
    return await run(command, args, { env, signal });
  } catch (error) {
    if (signal.aborted) throw error;
    const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr) : '';
    throw new BenchError(`pgbench failed: ${stderr.split('\n')[0]}`, { cause: error });
  }
}
