import { type Goal, evaluateRatio, createUnmeasuredGoal } from '../report.ts';
import { orderForRound } from '../load/rounds.ts';
import type { Context, Report } from '../suite.ts';
import { findPgbench } from '../pgbench.ts';
import { computeRate, formatReport } from './report.ts';
import {
  collector,
  graphileWorker,
  pgBoss,
  pgbenchVariant,
  type Sample,
  type Variant,
} from './variants.ts';

const CONNECTIONS = 64;
const PGBENCH_CLIENTS = 32;

/** Minimum ratios of the collector's ingest rate to those of pgbench and the other peers. */
const MIN_RATIOS = { pgbench: 1, peers: 2 };

/** Compares the collector's rate of accepted payloads with peers behind the same route and with pgbench insertions. */
export async function measureIngest(context: Context): Promise<Report> {
  const { options, logProgress } = context;
  const pgbench = await findPgbench();
  if (pgbench === undefined)
    logProgress(
      'pgbench is not installed, so its goal is not measured: install it or add it to PATH',
    );
  const insertions = pgbench && pgbenchVariant(pgbench, PGBENCH_CLIENTS);
  const variants = [collector, ...(insertions ? [insertions] : []), graphileWorker, pgBoss];
  const connections = options.isSmokeRun ? options.connections : CONNECTIONS;

  const samples = new Map<string, Sample[]>(variants.map(({ name }) => [name, []]));
  const failures: string[] = [];
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const variant of orderForRound(round, variants)) {
      const sample = await measure(variant, round, connections, context);
      samples.get(variant.name)?.push(sample);
      failures.push(...findCountMismatches(variant.name, sample));
    }
  }
  const goals = options.isSmokeRun ? [] : evaluateSpeed(samples, insertions);
  for (const goal of goals) await context.results.keep('goal', goal);
  return { text: formatReport({ options, connections, samples, goals }), failures };
}

async function measure(
  variant: Variant,
  round: number,
  connections: number,
  { options, databases, results, signal, logProgress }: Context,
): Promise<Sample> {
  await using database = await databases.createDatabase();
  const { seconds } = options;
  const sample = await variant.measure({ databaseUrl: database.url, connections, seconds, signal });
  await results.keep('sample', { variant: variant.name, round, ...sample });
  const rate = Math.round(computeRate(sample));
  logProgress(`round ${round} of ${options.rounds}: ${variant.name}: ${rate} payloads/s`);
  return sample;
}

/** Returns a failure if the sent, accepted and stored counts differ or are zero. */
export function findCountMismatches(
  name: string,
  { sent, accepted, stored, otherStatusCounts }: Sample,
): string[] {
  if (sent === accepted && accepted === stored && stored > 0) return [];
  const statuses = JSON.stringify(otherStatusCounts);
  return [
    `${name}: sent ${sent}, accepted ${accepted}, stored ${stored}; other statuses: ${statuses}`,
  ];
}

/**
 * Evaluates the speed goals.
 * @param insertions The pgbench variant; undefined if pgbench is not installed.
 */
export function evaluateSpeed(
  samples: ReadonlyMap<string, readonly Sample[]>,
  insertions: Variant | undefined,
): Goal[] {
  const getSeries = ({ name }: Variant) =>
    [name, (samples.get(name) ?? []).map(computeRate)] as const;
  const createGoal = (peer: Variant, atLeast: number) =>
    evaluateRatio(getSeries(collector), getSeries(peer), atLeast);
  return [
    insertions === undefined
      ? createUnmeasuredGoal(collector.name, 'pgbench', MIN_RATIOS.pgbench)
      : createGoal(insertions, MIN_RATIOS.pgbench),
    createGoal(graphileWorker, MIN_RATIOS.peers),
    createGoal(pgBoss, MIN_RATIOS.peers),
  ];
}
