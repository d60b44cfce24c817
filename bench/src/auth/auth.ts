import { type Cost, measureCost } from '../load/cost.ts';
import type { Generator, Load } from '../load/generator.ts';
import { measureRounds } from '../load/rounds.ts';
import type { Running } from '../load/variant.ts';
import { startProcess } from '../process/parent.ts';
import type { Context, Report } from '../suite.ts';
import { type Expiries, measureExpiries } from './expiries.ts';
import { judgeCounts, judgeSpeed } from './goals.ts';
import { formatReport } from './report.ts';
import { EMAIL_DOMAIN } from './users.ts';
import { smokeVariants, variants } from './variants.ts';

/** Expiries to look at, by how long the provider takes for each answer. */
const EXPIRIES = [
  { providerMs: 0, times: 10 },
  { providerMs: 50, times: 10 },
  { providerMs: 2000, times: 3 },
];
const SMOKE_EXPIRIES = [
  { providerMs: 0, times: 2 },
  { providerMs: 1000, times: 1 },
];

/**
 * Measures requests of signed-in users: what one costs, how many a second are answered, and how often
 * an expired token is refreshed while many ask.
 */
export async function measureAuth(context: Context): Promise<Report> {
  const { options, results, logProgress } = context;
  const failures: string[] = [];

  const costs: Cost[] = [];
  for (const variant of variantsFor(options)) {
    logProgress(`counting: ${variant.name}`);
    const { cost, failures: wrong } = await measureCost(variant, context);
    await results.keep('cost', cost);
    costs.push(cost);
    failures.push(...wrong);
  }

  const expiries: Expiries[] = [];
  for (const setup of options.smoke ? SMOKE_EXPIRIES : EXPIRIES) {
    logProgress(`expired tokens: provider ${setup.providerMs} ms`);
    const found = await measureExpiries(setup, context);
    await results.keep('expiries', found);
    expiries.push(found);
  }

  const { samples, failures: wrong } = await race(context);
  const counts = judgeCounts(costs, expiries);
  const missed = counts.filter(({ met }) => !met);
  failures.push(...wrong, ...missed.map(({ goal, measured }) => `${goal}: it was ${measured}`));
  const goals = [...counts, ...(options.smoke ? [] : judgeSpeed(samples))];
  for (const goal of goals) await results.keep('goal', goal);
  return { text: formatReport({ options, samples, costs, expiries, goals }), failures };
}

const variantsFor = ({ smoke }: Context['options']) => (smoke ? smokeVariants : variants);

/** Starts all variants, each on a separate database, and measures them side by side. */
async function race(context: Context): ReturnType<typeof measureRounds> {
  const { options, databases, signal, logProgress } = context;
  await using scope = new AsyncDisposableStack();
  const running = new Map<string, Running>();
  for (const variant of variantsFor(options)) {
    logProgress(`starting: ${variant.name}`);
    const { url: databaseUrl } = scope.use(await databases.createDatabase());
    // Two for each connection, so that one connection is not always the same user.
    const place = { databaseUrl, users: 2 * options.connections, signal };
    running.set(variant.name, scope.use(await variant.start(place)));
  }
  const module = new URL('../load/generator.ts', import.meta.url);
  const generator = scope.use(startProcess<Generator>(module, signal));
  const runLoad = (load: Load) => generator.call('run', load);
  return await measureRounds({ variants: running, runLoad, expected: EMAIL_DOMAIN }, context);
}
