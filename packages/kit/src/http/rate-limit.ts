import { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible';
import { commonProblem } from '../problems.ts';

/**
 * Function that counts one use of a key, and returns response headers with the remaining uses of the key. Without a
 * limit, it counts nothing and returns no headers.
 * @throws ProblemError `rate_limited` (429) with `Retry-After` at the limit, `unavailable` (503) if counting fails.
 */
export type RateLimit = (key: string) => Promise<Record<string, string>>;

const PERIOD_SECONDS = { minute: 60, day: 86_400 } as const;

/**
 * Creates a limit on uses per minute or per day. 0 disables the limit. Each key has a separate limit, shared by all
 * processes. The period starts with the first use of a key. Specification 001, Limits; headers as in Contract 2.
 * @param options.table Table with the columns of rate-limiter-flexible: `key`, `points`, `expire`.
 * @param options.name Name of this limit in the table.
 * @param options.what Description of the limited uses, for the `detail` of the error.
 * @param options.variable Configuration variable that sets the limit, for the `detail` of the error.
 */
export function createRateLimit(
  options: { pool: object; table: string; name: string; what?: string; variable?: string } & (
    | { perMinute: number }
    | { perDay: number }
  ),
): RateLimit {
  const { pool, table, name, what: limitedUses = 'of these requests', variable } = options;
  const operatorAdvice = variable === undefined ? '' : `, or raise ${variable} of the service`;
  const [limit, period] =
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
    duration: PERIOD_SECONDS[period],
  });
  return async (key) => {
    try {
      return createRateLimitHeaders(limit, await limiter.consume(key));
    } catch (error) {
      if (!(error instanceof RateLimiterRes)) throw commonProblem('unavailable', { cause: error });
      const headers = createRateLimitHeaders(limit, error);
      throw commonProblem('rate_limited', {
        detail: `No more than ${limit} ${limitedUses} a ${period}: wait for ${headers['ratelimit-reset']} s, then send it again${operatorAdvice}.`,
        headers: { ...headers, 'retry-after': String(headers['ratelimit-reset']) },
      });
    }
  };
}

/** Returns the headers of draft-ietf-httpapi-ratelimit-headers-06, which most clients support. */
function createRateLimitHeaders(limit: number, usage: RateLimiterRes): Record<string, string> {
  return {
    'ratelimit-limit': String(limit),
    'ratelimit-remaining': String(usage.remainingPoints),
    'ratelimit-reset': String(Math.max(1, Math.ceil(usage.msBeforeNext / 1000))),
  };
}
