import { MIN_BLOCK_MATCHES } from '@oselya/collector/internals';
import { orderForRound } from '../load/rounds.ts';
import { findPgbench } from '../pgbench.ts';
import { startProcess } from '../process/parent.ts';
import { percentiles } from '../statistics.ts';
import type { Context, Report } from '../suite.ts';
import { checkRanking, measureRecall } from './check.ts';
import { measureChurn } from './churn.ts';
import { openExact } from './exact.ts';
import { evaluateGoals } from './goals.ts';
import { DIMENSIONS, openListings, type Stack, startStack } from './stack.ts';
import type { LoadGenerator } from './load.ts';
import { KINDS, createQuestions, type Question, RANKED_KINDS } from './questions.ts';
import {
  type Findings,
  type Latency,
  formatReport,
  type Sample,
  type StatementRate,
} from './report.ts';
import { QUESTIONS, recordStatements, repeatStatements } from './statements.ts';

/** Number of concurrent clients. */
const CLIENTS = 8;
const SEED = 20_260_102;

const FULL = {
  listings: [100_000, 1_000_000],
  questions: QUESTIONS,
  recallQuestions: 50,
  rankingQuestions: 4,
};
const SMOKE = { listings: [2000], questions: 12, recallQuestions: 4, rankingQuestions: 2 };

/** Maximum number of listings in a database to copy and change, because each new vector takes milliseconds. */
const MAX_CHANGED_LISTINGS = 200_000;

const LOAD_MODULE = new URL('load.ts', import.meta.url);

/** Measures searches over HTTP, and compares the results with exact results. */
export async function measureSearch(context: Context): Promise<Report> {
  const { options, results } = context;
  const findings: Findings[] = [];
  const sizes = options.listings ?? (options.isSmokeRun ? SMOKE : FULL).listings;
  for (const listings of sizes) findings.push(await measureSize(listings, context));
  const goals = options.isSmokeRun ? [] : evaluateGoals(findings);
  for (const goal of goals) await results.keep('goal', goal);
  return {
    text: formatReport({ options, findings, goals, clients: CLIENTS }),
    failures: findings.flatMap(({ equality }) => equality.failures),
  };
}

async function measureSize(listings: number, context: Context): Promise<Findings> {
  const checks = context.options.isSmokeRun ? SMOKE : FULL;
  await using database = await openListings(listings, context);
  const unchanged = await measureUnchanged(listings, database.url, context, checks);
  const churned =
    listings > MAX_CHANGED_LISTINGS
      ? []
      : await measureChurn(listings, database.url, context, checks.recallQuestions);
  return { listings, ...unchanged, churned };
}

async function measureUnchanged(
  listings: number,
  databaseUrl: string,
  { options, results, signal, logProgress }: Context,
  checks: typeof FULL,
): Promise<
  Pick<Findings, 'samples' | 'singleClientSamples' | 'statementRates' | 'recalls' | 'equality'>
> {
  await using scope = new AsyncDisposableStack();
  const stack = scope.use(await startStack(databaseUrl, signal));
  const load = scope.use(startProcess<LoadGenerator>(LOAD_MODULE, signal));
  const samples: Sample[] = [];
  const singleClientSamples: Sample[] = [];
  const statementRates: StatementRate[] = [];
  const pgbench = await findPgbench();
  for (let round = 1; round <= options.rounds; round += 1) {
    const seeded = { count: checks.questions, seed: SEED + round, dimensions: DIMENSIONS };
    for (const kind of orderForRound(round, KINDS)) {
      const questions = createQuestions(kind, seeded);
      for (const clients of [CLIENTS, 1]) {
        const setup = { kind, round, listings, clients };
        const sample = await measure(setup, questions, { ...stack, load }, options.seconds);
        (clients === 1 ? singleClientSamples : samples).push(sample);
        await results.keep('sample', sample);
        const { p50, p95 } = sample.all;
        const latencies = `p50 ${p50.toFixed(1)}, p95 ${p95.toFixed(1)} ms`;
        logProgress(`${listings}, round ${round}: ${kind}, ${clients} clients: ${latencies}`);
      }
    }
    if (pgbench === undefined) continue;
    for (const kind of RANKED_KINDS) {
      const recording = { dimensions: DIMENSIONS, signal };
      const scripts = await recordStatements(databaseUrl, createQuestions(kind, seeded), recording);
      const run = { databaseUrl, clients: CLIENTS, seconds: options.seconds, signal };
      const rate = await repeatStatements(pgbench, scripts, run);
      statementRates.push({ kind, round, listings, rate });
      await results.keep('statements', { kind, round, listings, rate });
    }
  }
  const exact = scope.use(await openExact(databaseUrl));
  const target = { url: stack.url, exact, dimensions: DIMENSIONS };
  logProgress(`${listings} listings: comparing responses with exact results`);
  const questionsPerGroup = checks.rankingQuestions;
  const equality = await checkRanking(target, { minRanked: MIN_BLOCK_MATCHES, questionsPerGroup });
  await results.keep('equality', { listings, ...equality });
  const recalls = await measureRecall(target, checks.recallQuestions);
  for (const recall of recalls) await results.keep('recall', { listings, ...recall });
  return { samples, singleClientSamples, statementRates, recalls, equality };
}

type Processes = Pick<Stack, 'url' | 'api'> & {
  load: ReturnType<typeof startProcess<LoadGenerator>>;
};

async function measure(
  setup: Pick<Sample, 'kind' | 'round' | 'listings' | 'clients'>,
  questions: readonly Question[],
  { url, api, load }: Processes,
  seconds: number,
): Promise<Sample> {
  const runLoad = (forSeconds: number) =>
    load.call('run', { url, questions, clients: setup.clients, seconds: forSeconds });
  await runLoad(seconds * 0.4);
  const before = await api.call('cpuMs');
  const outcome = await runLoad(seconds);
  const cpuMs = (await api.call('cpuMs')) - before;
  const [response] = outcome.unexpectedResponses;
  if (response !== undefined) throw new Error(`A ${setup.kind} search failed: ${response}`);
  const all = summarizeLatencies(Object.values(outcome.latencies).flat());
  const groups = Object.entries(outcome.latencies).map(
    ([group, latencies]) => [group, summarizeLatencies(latencies)] as const,
  );
  const { seconds: elapsed } = outcome;
  return {
    ...setup,
    searches: all.searches,
    seconds: elapsed,
    cpuMs,
    all,
    groups: Object.fromEntries(groups),
  };
}

function summarizeLatencies(latencies: readonly number[]): Latency {
  const [p50 = 0, p95 = 0, max = 0] = percentiles(latencies, [0.5, 0.95, 1]);
  return { p50, p95, max, searches: latencies.length };
}
