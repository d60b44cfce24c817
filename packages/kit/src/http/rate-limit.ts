import { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible';
import { commonProblem } from '../problems.ts';

/**
 * Counts one use by the client that `key` names, and returns the headers with its remaining uses.
 * @throws ProblemError `rate_limited` (429) with `Retry-After` at the limit; `unavailable` (503) where uses cannot be
 *   counted.
 */
export type RateLimit = (key: string) => Promise<Record<string, string>>;

const SECONDS = { minute: 60, day: 86_400 } as const;

/**
 * Creates a limit of uses a minute, or a day, for each key over all processes. The time begins with the first use of a
 * key. Specification 001, Limits; headers as in Contract 2.
 * @param pool A node-postgres pool.
 * @param table With the columns of rate-limiter-flexible: `key`, `points`, `expire`.
 * @param name Separates the counts of this limit from others in the table.
 * @param perMinute Uses a minute, or `perDay`; 0 is no limit.
 * @param what Names the limited uses in the error's `detail`.
 * @param variable Names the variable that sets the limit there.
 */
export function createRateLimit(
  options: { pool: object; table: string; name: string; what?: string; variable?: string } & (
    | { perMinute: number }
    | { perDay: number }
  ),
): RateLimit {
  const { pool, table, name, what = 'of these requests', variable } = options;
  const orRaise = variable === undefined ? '' : `, or raise ${variable} of the service`;
  const [limit, time] =
    'perDay' in options
      ? ([options.perDay, 'day'] as const)
      : ([options.perMinute, 'minute'] as const);
  if (limit === 0) return () => Promise.resolve({});
  const limiter = new RateLimiterPostgres({
    storeClient: pool,
    storeType: 'pool',
    tableName: table,
    tableCreated: true,
    keyPrefix: name,
    points: limit,
    duration: SECONDS[time],
  });
  return async (key) => {
    try {
      return standing(limit, await limiter.consume(key));
    } catch (error) {
      if (!(error instanceof RateLimiterRes)) throw commonProblem('unavailable', { cause: error });
      const headers = standing(limit, error);
      throw commonProblem('rate_limited', {
        detail: `No more than ${limit} ${what} a ${time}: wait for ${headers['ratelimit-reset']} s, then send it again${orRaise}.`,
        headers: { ...headers, 'retry-after': String(headers['ratelimit-reset']) },
      });
    }
  };
}

/** The headers of draft-ietf-httpapi-ratelimit-headers-06, which clients read today. */
function standing(limit: number, state: RateLimiterRes): Record<string, string> {
  return {
    'ratelimit-limit': String(limit),
    'ratelimit-remaining': String(state.remainingPoints),
    'ratelimit-reset': String(Math.max(1, Math.ceil(state.msBeforeNext / 1000))),
  };
}
