import type { RateLimit } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';

/**
 * Counts a payload against the limits on its source and its caller, and returns the rate-limit headers.
 * @param caller The result of `getCallerKey`.
 * @throws ProblemError `rate_limited` or `unavailable`; database errors.
 */
export type SourceLimit = (source: string, caller: string) => Promise<Record<string, string>>;

const MAX_KNOWN_SOURCES = 10_000;

/**
 * Creates the limits on payloads per source and on new sources per caller. Without the second limit, a client could
 * evade the first limit with invented sources. Specification 001, Limits.
 * @param deps.newSources Limit on new sources per caller. If undefined, sources are not looked up.
 */
export function createSourceLimit(deps: {
  db: Kysely<Tables>;
  perSource: RateLimit;
  newSources: RateLimit | undefined;
}): SourceLimit {
  const { db, perSource, newSources } = deps;
  if (newSources === undefined) return perSource;
  const sourceChecks = new Map<string, Promise<void>>();

  const countNewSource = async (source: string, caller: string): Promise<void> => {
    const row = await db
      .selectFrom('sources')
      .select('slug')
      .where('slug', '=', source)
      .executeTakeFirst();
    if (row === undefined) await newSources(caller);
  };

  return async (source, caller) => {
    // Concurrent first payloads of a source and a caller count as one new source.
    const key = `${source} ${caller}`;
    let sourceCheck = sourceChecks.get(key);
    if (sourceCheck === undefined) {
      if (sourceChecks.size >= MAX_KNOWN_SOURCES) sourceChecks.clear();
      sourceCheck = countNewSource(source, caller);
      sourceChecks.set(key, sourceCheck);
      sourceCheck.catch(() => sourceChecks.delete(key));
    }
    await sourceCheck;
    return perSource(source);
  };
}
