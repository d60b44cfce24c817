import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSearchService, type Tables } from '@oselya/collector/internals';
import { connect } from '@oselya/db';
import pg from 'pg';
import { BenchError } from '../bench-error.ts';
import { EMBEDDING_MODEL, formatArray } from '../listings/rows.ts';
import { createVectorGenerator } from '../listings/vector.ts';
import { callPgbench, type Pgbench } from '../pgbench.ts';
import { createBody, createTextVector, type Question, type RankedKind } from './questions.ts';

/** Number of questions per round: each one is a script, and pgbench reads at most 128 scripts. */
export const QUESTIONS = 120;

/**
 * Runs each question once and records its statements with their values.
 * @param dimensions Number of elements of a vector.
 * @returns The statements of each question, as a script for pgbench.
 */
export async function recordStatements(
  databaseUrl: string,
  questions: readonly (Question & { kind: RankedKind })[],
  { dimensions, signal }: { dimensions: number; signal: AbortSignal },
): Promise<string[]> {
  const database = await connect<Tables>({ url: databaseUrl });
  try {
    let statements: string[] = [];
    const recordedClients = new WeakSet<object>();
    database.pool.on('acquire', (client) => {
      if (recordedClients.has(client)) return;
      recordedClients.add(client);
      const query = client.query.bind(client) as (
        config: pg.QueryConfig,
      ) => Promise<pg.QueryResult>;
      const recordQuery = (config: pg.QueryConfig) => {
        statements.push(formatStatement(config));
        return query(config);
      };
      client.query = recordQuery as typeof client.query;
    });
    const vectorGenerator = createVectorGenerator(dimensions);
    const embed = ([text = '']: readonly string[]) =>
      Promise.resolve({
        vectors: [createTextVector(vectorGenerator, text)],
        model: EMBEDDING_MODEL,
      });
    const service = createSearchService({ db: database.db, model: { embed } });
    const scripts: string[] = [];
    for (const question of questions) {
      statements = [];
      await service[question.kind](createBody(question) as never, signal);
      scripts.push(statements.join(''));
    }
    return scripts;
  } finally {
    await database.close();
  }
}

/** Returns a statement with its values as literals, which pgbench needs. */
function formatStatement({ text, values = [] }: pg.QueryConfig): string {
  const literals = values.map((value) => {
    if (value === null) return 'null';
    return pg.escapeLiteral(Array.isArray(value) ? formatArray(value.map(String)) : String(value));
  });
  return `${text.replaceAll(/\$(\d+)/g, (_, number) => literals[Number(number) - 1] ?? 'null')};\n`;
}

/**
 * Repeats the statements of searches with pgbench, in random order.
 * @param scripts Statements of each search.
 * @returns The number of searches per second.
 * @throws BenchError if pgbench fails or prints unexpected output.
 */
export async function repeatStatements(
  pgbench: Pgbench,
  scripts: readonly string[],
  options: { databaseUrl: string; clients: number; seconds: number; signal: AbortSignal },
): Promise<number> {
  const { databaseUrl, clients, seconds, signal } = options;
  const folder = await mkdtemp(join(tmpdir(), 'oselya-bench-'));
  try {
    const files = scripts.map((_, index) => join(folder, `${index}.sql`));
    for (const [index, file] of files.entries()) await writeFile(file, scripts[index] ?? '');
    const flags = `-n -c ${clients} -j 2 -T ${Math.max(1, Math.round(seconds))}`.split(' ');
    const scriptFlags = files.flatMap((file) => ['-f', file]);
    const { stdout } = await callPgbench(pgbench, [...flags, ...scriptFlags], {
      databaseUrl,
      signal,
    });
    const rate = /^tps = ([\d.]+)/m.exec(stdout)?.[1];
    if (rate === undefined || /failed.*: [1-9]/.test(stdout))
      throw new BenchError(`pgbench failed transactions or printed unexpected output: ${stdout}`);
    return Number(rate);
  } finally {
    await rm(folder, { recursive: true });
  }
}
