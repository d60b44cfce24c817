import { startStatementCounter } from '../statement-counter.ts';
import { median } from '../statistics.ts';
import type { Context } from '../suite.ts';
import { checkAnswers, type Variant } from './variant.ts';

/** Cost of one request when nothing changed since the previous one. */
export type Cost = {
  variant: string;
  requests: number;
  /** Database statements of the request in the middle: what else a server does now and then is left out. */
  statements: number;
  /** The same as a mean, with all that was sent meanwhile. */
  statementsMean: number;
  /** Calls to other services than the database, as a mean. */
  calls: number;
};

const USERS = 5;
const TURNS = 20;

/**
 * Counts what requests cost, one after another, on a variant that runs for this alone: its way to the
 * database counts the statements and would slow a measurement of time down.
 */
export async function measureCost(
  variant: Variant,
  { databases, signal }: Pick<Context, 'databases' | 'signal'>,
): Promise<{ cost: Cost; failures: string[] }> {
  await using database = await databases.createDatabase();
  await using counter = await startStatementCounter(database.url);
  await using running = await variant.start({ databaseUrl: counter.url, users: USERS, signal });
  const targets = await running.targets();
  const failures = await checkAnswers(running, targets);
  const { calls: callsBefore } = await running.counters();
  const before = counter.count();
  const statements: number[] = [];
  for (let turn = 0; turn < TURNS; turn += 1) {
    for (const target of targets) {
      const earlier = counter.count();
      failures.push(...(await checkAnswers(running, [target])));
      statements.push(counter.count() - earlier);
    }
  }
  const requests = statements.length;
  const { calls } = await running.counters();
  return {
    cost: {
      variant: variant.name,
      requests,
      statements: median(statements),
      statementsMean: (counter.count() - before) / requests,
      calls: (calls - callsBefore) / requests,
    },
    failures: failures.map((failure) => `${variant.name}: ${failure}`),
  };
}
