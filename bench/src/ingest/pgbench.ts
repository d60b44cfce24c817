import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { BenchError } from '../bench-error.ts';
import { callPgbench, type Pgbench } from '../pgbench.ts';
import { createPayload, getSourceSlug, ID_DIGITS, SOURCES } from './payload.ts';

/** Duration from which a run is not repeated. On a busy machine, a run of one second may complete no insertion. */
const MAX_REPEATED_SECONDS = 60;

/**
 * Inserts payloads one by one with prepared statements, for the given number of seconds after a warm-up, both rounded
 * to at least one. The connections stay open, because each one plans and caches its statements at first. If no
 * insertion completes after the warm-up of a run shorter than {@link MAX_REPEATED_SECONDS}, repeats it for twice as long.
 * @returns The number of insertions, with those of the warm-up, and their rate per second after the warm-up.
 * @throws BenchError if pgbench fails or prints unexpected output.
 */
export async function runPgbench(
  pgbench: Pgbench,
  options: {
    databaseUrl: string;
    clients: number;
    warmUpSeconds: number;
    seconds: number;
    signal: AbortSignal;
  },
): Promise<{ inserted: number; insertionRate: number }> {
  const { databaseUrl, clients, signal } = options;
  const warmUpSeconds = toWholeSeconds(options.warmUpSeconds);
  const seconds = toWholeSeconds(options.seconds);
  await createSources(databaseUrl);
  const folder = await mkdtemp(join(tmpdir(), 'oselya-bench-'));
  try {
    const script = join(folder, 'insert.sql');
    await writeFile(script, INSERT_SCRIPT);
    const flags = `-n -M prepared -c ${clients} -j 2 -T ${warmUpSeconds + seconds} -P 1`;
    const { stdout, stderr } = await callPgbench(
      pgbench,
      [...flags.split(' '), '-D', `payload=${PAYLOAD}`, '-f', script],
      { databaseUrl, signal },
    );
    const inserted = /^number of transactions actually processed: (\d+)/m.exec(stdout)?.[1];
    if (inserted === undefined || !/failed.*: 0 /.test(stdout)) {
      throw new BenchError(`pgbench failed transactions or printed unexpected output: ${stdout}`);
    }
    const insertionRate = computeInsertionRate(stderr, warmUpSeconds);
    if (insertionRate === 0 && seconds < MAX_REPEATED_SECONDS) {
      const repeatedRun = await runPgbench(pgbench, { ...options, seconds: 2 * seconds });
      return { ...repeatedRun, inserted: repeatedRun.inserted + Number(inserted) };
    }
    return { inserted: Number(inserted), insertionRate };
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Returns a duration that pgbench accepts. */
function toWholeSeconds(seconds: number): number {
  return Math.max(1, Math.round(seconds));
}

/** Returns the rate of insertions per second after the warm-up, from the progress reports of pgbench. */
export function computeInsertionRate(progress: string, warmUpSeconds: number): number {
  let lastTime = 0;
  let insertedCount = 0;
  let seconds = 0;
  for (const [, time, rate] of progress.matchAll(/^progress: ([\d.]+) s, ([\d.]+) tps/gm)) {
    const duration = Number(time) - lastTime;
    lastTime = Number(time);
    if (lastTime < warmUpSeconds + 0.5) continue;
    insertedCount += Number(rate) * duration;
    seconds += duration;
  }
  return seconds === 0 ? 0 : insertedCount / seconds;
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

const PAYLOAD = JSON.stringify(createPayload(getSourceSlug(0), '0'.repeat(ID_DIGITS)));

/** Inserts a row like the collector's, with a random source and listing ID. The payload is a parameter. */
const INSERT_SCRIPT = `\\set source random(0, ${SOURCES - 1})
\\set id random(1, 1000000000)
insert into raw_data (source_slug, external_id, payload, content_hash, request_id)
values ('source-' || :source, 'flat-' || :id, :payload, '${'0'.repeat(64)}', '${'0'.repeat(36)}') returning id;
`;
