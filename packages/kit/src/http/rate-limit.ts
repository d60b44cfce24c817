import { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible';
import { commonProblem } from '../common-errors.ts';

/**
 * Counts one use by the caller that `key` names, and gives the headers that tell where it stands.
 * @throws ProblemError `rate_limited` (429) with `Retry-After`, when the uses of its time are spent;
 * `unavailable` (503) where they cannot be counted.
 */
export type RateLimit = (key: string) => Promise<Record<string, string>>;

const SECONDS = { minute: 60, day: 86_400 } as const;

/**
 * A limit of uses a minute, or a day, for each key, held for all processes of the platform together. That time
 * begins with a key's first use. Specification 001, Limits; headers as in Contract 2.
 * @param pool A node-postgres pool.
 * @param table Has the columns that rate-limiter-flexible writes: `key`, `points`, `expire`.
 * @param name Sets this limit's counts apart from those of others in the table.
 * @param perMinute Uses a minute, or `perDay`; 0 is no limit: nothing is counted.
 * @param what Is limited, for the `detail` of the refusal.
 * @param variable Sets the limit, for the same; without it the detail names none.
 */
export function createRateLimit(
  options: { pool: object; table: string; name: string; what?: string; variable?: string } & (
    | { perMinute: number }
    | { perDay: number }
  ),
): RateLimit {
  const { pool, table, name, what = 'of these requests', variable } = options;
  const orRaise = variable === undefined ? '' : `, or raise ${variable} of the service`;
  const [most, time] =
    'perDay' in options
      ? ([options.perDay, 'day'] as const)
      : ([options.perMinute, 'minute'] as const);
  if (most === 0) return () => Promise.resolve({});
  const limiter = new RateLimiterPostgres({
    storeClient: pool,
    storeType: 'pool',
    tableName: table,
    tableCreated: true,
    keyPrefix: name,
    points: most,
    duration: SECONDS[time],
  });
  return async (key) => {
    try {
      return standing(most, await limiter.consume(key));
    } catch (refusal) {
      // Without the count nobody knows whether the limit is reached.
      if (!(refusal instanceof RateLimiterRes)) {
        throw commonProblem('unavailable', { cause: refusal });
      }
      const headers = standing(most, refusal);
      throw commonProblem('rate_limited', {
        detail: `No more than ${most} ${what} a ${time}: wait for ${headers['ratelimit-reset']} s, then send it again${orRaise}.`,
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
