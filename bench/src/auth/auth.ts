import { type Cost, measureCost } from '../load/cost.ts';
import type { Generator, Load } from '../load/generator.ts';
import { measureRounds } from '../load/rounds.ts';
import type { Running } from '../load/variant.ts';
import { startProcess } from '../process/parent.ts';
import type { Context, Report } from '../suite.ts';
import { type Expiries, measureExpiries } from './expiries.ts';
import { evaluateCounts, evaluateSpeed, formatReport } from './report.ts';
import { EMAIL_DOMAIN } from './users.ts';
import { uncachedAssistants, smokeVariants, variants } from './variants.ts';

/** Provider response times, each with the number of token expiries to measure. */
const EXPIRIES = [
  { providerMs: 0, times: 10 },
  { providerMs: 50, times: 10 },
  { providerMs: 2000, times: 3 },
];
const SMOKE_EXPIRIES = [{ providerMs: 100, times: 1 }];

/**
 * Measures requests of signed-in users: the cost of one request, the request rate under load, and how often an
 * expired token is refreshed during concurrent requests.
 */
export async function measureAuth(context: Context): Promise<Report> {
  const { options, results } = context;
  // A smoke run does not evaluate speed, so its measurements may run concurrently.
  const [costResults, expiries, speedResults] = options.isSmokeRun
    ? await Promise.all([countCosts(context), countRefreshes(context), race(context)])
    : [await countCosts(context), await countRefreshes(context), await race(context)];
  const { costs } = costResults;
  const { samples } = speedResults;
  const goals = evaluateCounts(costs, expiries);
  const failures = [
    ...costResults.failures,
    ...speedResults.failures,
    ...goals
      .filter(({ isMet }) => !isMet)
      .map(({ goal, measured }) => `${goal}: measured ${measured}`),
  ];
  if (!options.isSmokeRun) goals.push(...evaluateSpeed(samples));
  for (const goal of goals) await results.keep('goal', goal);
  return { text: formatReport({ options, samples, costs, expiries, goals }), failures };
}

async function countCosts(context: Context): Promise<{ costs: Cost[]; failures: string[] }> {
  const costs: Cost[] = [];
  const failures: string[] = [];
  // A smoke run counts only the assistant's statements, because only the assistant has a statement limit.
  for (const variant of context.options.isSmokeRun ? uncachedAssistants.slice(0, 1) : variants) {
    context.logProgress(`counting: ${variant.name}`);
    const { cost, failures: costFailures } = await measureCost(variant, context);
    await context.results.keep('cost', cost);
    costs.push(cost);
    failures.push(...costFailures);
  }
  return { costs, failures };
}

async function countRefreshes(context: Context): Promise<Expiries[]> {
  const expiries: Expiries[] = [];
  for (const setup of context.options.isSmokeRun ? SMOKE_EXPIRIES : EXPIRIES) {
    context.logProgress(`expired tokens: provider ${setup.providerMs} ms`);
    const result = await measureExpiries(setup, context);
    await context.results.keep('expiries', result);
    expiries.push(result);
  }
  return expiries;
}

/** Starts the variants of the run on separate databases and measures them in rounds. */
async function race(context: Context): ReturnType<typeof measureRounds> {
  const { options, databases, signal, logProgress } = context;
  await using scope = new AsyncDisposableStack();
  const runningVariants = new Map<string, Running>();
  for (const variant of options.isSmokeRun ? smokeVariants : variants) {
    logProgress(`starting: ${variant.name}`);
    const { url: databaseUrl } = scope.use(await databases.createDatabase());
    // With two users per connection, consecutive requests on a connection come from different users.
    const variantSetup = { databaseUrl, users: 2 * options.connections, signal };
    runningVariants.set(variant.name, scope.use(await variant.start(variantSetup)));
  }
  const module = new URL('../load/generator.ts', import.meta.url);
  const generator = scope.use(startProcess<Generator>(module, signal));
  const runLoad = (load: Load) => generator.call('run', load);
  return await measureRounds(
    { variants: runningVariants, runLoad, expected: EMAIL_DOMAIN },
    context,
  );
}
