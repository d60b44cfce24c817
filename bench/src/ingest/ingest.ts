import { type Goal, ratioGoal, unmeasuredGoal } from '../goal.ts';
import { orderOf } from '../load/rounds.ts';
import type { Context, Report } from '../suite.ts';
import { findPgbench } from './pgbench.ts';
import { rateOf, reportText } from './report.ts';
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

/** Required speed of the collector relative to each peer. */
const AT_LEAST = { pgbench: 1, peers: 2 };

/**
 * Measures how many payloads a second are taken in, against the peers behind the same route, and against
 * nothing but the insertion.
 */
export async function measureIngest(context: Context): Promise<Report> {
  const { options, tell } = context;
  const pgbench = await findPgbench();
  if (pgbench === undefined) tell('pgbench is not here: what it is compared with is not measured');
  const insertions = pgbench && pgbenchVariant(pgbench, PGBENCH_CLIENTS);
  const variants = [collector, ...(insertions ? [insertions] : []), graphileWorker, pgBoss];
  const connections = options.smoke ? options.connections : CONNECTIONS;

  const samples = new Map<string, Sample[]>(variants.map(({ name }) => [name, []]));
  const failures: string[] = [];
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const variant of orderOf(round, variants)) {
      const sample = await measure(variant, round, connections, context);
      samples.get(variant.name)?.push(sample);
      failures.push(...wrongCounts(variant.name, sample));
    }
  }
  const goals = options.smoke ? [] : speedGoals(samples, insertions);
  for (const goal of goals) await context.results.keep('goal', goal);
  return { text: reportText({ options, connections, samples, goals }), failures };
}

async function measure(
  variant: Variant,
  round: number,
  connections: number,
  { options, databases, results, signal, tell }: Context,
): Promise<Sample> {
  await using database = await databases.createDatabase();
  const { seconds } = options;
  const sample = await variant.measure({ databaseUrl: database.url, connections, seconds, signal });
  await results.keep('sample', { variant: variant.name, round, ...sample });
  const rate = Math.round(rateOf(sample));
  tell(`round ${round} of ${options.rounds}: ${variant.name}: ${rate} payloads/s`);
  return sample;
}

/** Whatever was sent has to be accepted, and whatever was accepted to be stored. */
export function wrongCounts(name: string, { sent, accepted, stored, others }: Sample): string[] {
  if (sent === accepted && accepted === stored && stored > 0) return [];
  const answers = JSON.stringify(others);
  return [
    `${name}: sent ${sent}, accepted ${accepted}, stored ${stored}; other answers: ${answers}`,
  ];
}

/** @param insertions Undefined where there is no pgbench: what is not measured is not met. */
export function speedGoals(
  samples: ReadonlyMap<string, readonly Sample[]>,
  insertions: Variant | undefined,
): Goal[] {
  const series = ({ name }: Variant) => [name, (samples.get(name) ?? []).map(rateOf)] as const;
  const against = (peer: Variant, atLeast: number) =>
    ratioGoal(series(collector), series(peer), atLeast);
  return [
    insertions === undefined
      ? unmeasuredGoal(collector.name, 'pgbench', AT_LEAST.pgbench)
      : against(insertions, AT_LEAST.pgbench),
    against(graphileWorker, AT_LEAST.peers),
    against(pgBoss, AT_LEAST.peers),
  ];
}
