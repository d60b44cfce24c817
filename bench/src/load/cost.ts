import { startStatementCounter } from '../statement-counter.ts';
import { median } from '../statistics.ts';
import type { Context } from '../suite.ts';
import { checkAnswers, type Variant } from './variant.ts';

/** Cost of one request when nothing changed since the previous one. */
export type Cost = {
  variant: string;
  requests: number;
  /** Median number of database statements per request. The median excludes the server's periodic work. */
  statements: number;
  /** Mean number of database statements per request, including periodic work. */
  statementsMean: number;
  /** Mean number of calls per request to services other than the database. */
  calls: number;
};

const USERS = 5;
const REQUESTS_PER_USER = 20;

/**
 * Counts the statements and calls of sequential requests on a separate server, whose database connection
 * goes through a counting proxy.
 * @returns The cost per request, and the failed checks.
 */
export async function measureCost(
  variant: Variant,
  { databases, signal }: Pick<Context, 'databases' | 'signal'>,
): Promise<{ cost: Cost; failures: string[] }> {
  await using database = await databases.createDatabase();
  await using counter = await startStatementCounter(database.url);
  await using runningVariant = await variant.start({
    databaseUrl: counter.url,
    users: USERS,
    signal,
  });
  const targets = await runningVariant.targets();
  const failures = await checkAnswers(runningVariant, targets);
  const { calls: callsBefore } = await runningVariant.counters();
  const statementsBefore = counter.count();
  const statements: number[] = [];
  for (let round = 0; round < REQUESTS_PER_USER; round += 1) {
    for (const target of targets) {
      const previous = counter.count();
      failures.push(...(await checkAnswers(runningVariant, [target])));
      statements.push(counter.count() - previous);
    }
  }
  const requests = statements.length;
  const { calls } = await runningVariant.counters();
  return {
    cost: {
      variant: variant.name,
      requests,
      statements: median(statements),
      statementsMean: (counter.count() - statementsBefore) / requests,
      calls: (calls - callsBefore) / requests,
    },
    failures: failures.map((failure) => `${variant.name}: ${failure}`),
  };
}
