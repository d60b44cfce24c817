import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { BenchError } from '../bench-error.ts';
import { createPayload, getSourceSlug, SOURCES } from './payload.ts';

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

/** Duration from which a run is not repeated. On a busy machine, a run of one second may complete no insertion. */
const MAX_REPEATED_SECONDS = 60;

/**
 * Inserts payloads one by one with prepared statements, for the given number of seconds, rounded to at least one. If no
 * insertion completes in a run shorter than {@link MAX_REPEATED_SECONDS}, repeats the run for twice as long.
 * @returns The number of insertions, and the rate per second, which excludes the time to open connections.
 * @throws BenchError if pgbench fails or prints unexpected output.
 */
export async function runPgbench(
  { command }: Pgbench,
  options: { databaseUrl: string; clients: number; seconds: number; signal: AbortSignal },
): Promise<{ inserted: number; insertionRate: number }> {
  const { databaseUrl, clients, seconds, signal } = options;
  await createSources(databaseUrl);
  const folder = await mkdtemp(join(tmpdir(), 'oselya-bench-'));
  try {
    const script = join(folder, 'insert.sql');
    await writeFile(script, createInsertScript());
    const time = Math.max(1, Math.round(seconds));
    const client = String(clients);
    const stdout = await call(
      command,
      ['-n', '-M', 'prepared', '-c', client, '-j', '2', '-T', String(time), '-f', script],
      { databaseUrl, signal },
    );
    const inserted = /^number of transactions actually processed: (\d+)/m.exec(stdout)?.[1];
    if (inserted === '0' && time < MAX_REPEATED_SECONDS) {
      return await runPgbench({ command }, { ...options, seconds: 2 * time });
    }
    const insertionRate = /^tps = ([\d.]+)/m.exec(stdout)?.[1];
    if (inserted === undefined || insertionRate === undefined || !/failed.*: 0 /.test(stdout)) {
      throw new BenchError(`pgbench failed transactions or printed unexpected output: ${stdout}`);
    }
    return { inserted: Number(inserted), insertionRate: Number(insertionRate) };
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Runs pgbench with connection settings in environment variables, because other users can read its arguments. */
async function call(
  command: string,
  args: readonly string[],
  { databaseUrl, signal }: { databaseUrl: string; signal: AbortSignal },
): Promise<string> {
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
    return (await run(command, args, { env, signal })).stdout;
  } catch (error) {
    if (signal.aborted) throw error;
    const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr) : '';
    throw new BenchError(`pgbench failed: ${stderr.split('\n')[0]}`, { cause: error });
  }
}

async function createSources(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query(
    'insert into sources (slug) select unnest($1::text[]) on conflict do nothing',
    [Array.from({ length: SOURCES }, (_, index) => getSourceSlug(index))],
  );
  await client.end();
}

/** Returns a script that inserts a row like the collector's, with a random source and listing ID. */
function createInsertScript(): string {
  const payload = JSON.stringify(createPayload(getSourceSlug(0), '000000000'))
    .replaceAll("'", "''")
    // Without the space, pgbench would parse `:true` as a variable.
    .replaceAll('":', '": ');
  return [
    `\\set source random(0, ${SOURCES - 1})`,
    '\\set id random(1, 1000000000)',
    `insert into raw_data (source_slug, external_id, payload, content_hash)
     values ('source-' || :source, 'flat-' || :id, '${payload}', '${'0'.repeat(64)}')
     returning id;`.replaceAll(/\s*\n\s*/g, ' '),
    '',
  ].join('\n');
}
