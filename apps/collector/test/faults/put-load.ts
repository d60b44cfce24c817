import type { TestContext } from 'node:test';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../src/tables.ts';
import { until } from '@oselya/testing';
import type { Collectors } from './collectors.ts';
import { untilEnded } from './count-raws.ts';
import { startIngest } from './ingest-load.ts';
import { judgeIngest } from './judge-ingest.ts';
import { repetitions } from '../support/soak.ts';

/** Senders, each of which waits for its answer. */
const SENDERS = 12;
/** Payloads that are accepted before, between and after what happens. */
const SOME = repetitions({ soak: 60, ci: 20 });
/** A lost job waits for its lease, of 5 s here, and then for the next look for such jobs. */
const PATIENCE_MS = 60_000;

/** Listings and pictures of tests are much alike, so that there is much to compare. */
const SEARCH_PATIENCE_MS = 180_000;

/** Whether nobody has anything to look for any more; what met an outage there waits for a time of its own. */
async function hasNoMarks(db: Kysely<Tables>): Promise<boolean> {
  const { rows } = await sql`
    select from duplicate_marks where claimed_until is null or claimed_until < now() limit 1`.execute(
    db,
  );
  return rows.length === 0;
}

/** Puts a load on collectors, which is judged by how it ends and by what that leaves. */
export async function putLoad(collectors: Collectors, db: Kysely<Tables>, source: string) {
  const untilNothingIsLeft = await collectors.watch();
  const ingest = startIngest(source, { ...collectors, connections: SENDERS });
  const { result } = ingest;
  return {
    result,
    /** Waits until some more payloads are accepted. */
    async goesOn(): Promise<void> {
      const wanted = result.accepted.size + SOME;
      await until('payloads to be accepted', () => result.accepted.size >= wanted, PATIENCE_MS);
    },
    /** Waits until workers are at it: after an outage they take a second and more to begin again. */
    async isInProgress(): Promise<void> {
      const processing = db
        .selectFrom('raw_data')
        .select('id')
        .where('source_slug', '=', source)
        .where('status', '=', 'processing')
        .limit(1);
      await until('jobs to be in progress', () => processing.executeTakeFirst(), PATIENCE_MS);
    },
    /** Ends it, and waits for all that it sent. */
    async end(): Promise<void> {
      await ingest.stop();
      await untilEnded(db, PATIENCE_MS);
      await until('duplicates to be found', () => hasNoMarks(db), SEARCH_PATIENCE_MS);
    },
    async judge(context: TestContext, { mostAttempts = 1 } = {}): Promise<void> {
      const attempts = await judgeIngest(db, { source, result, mostAttempts });
      const { accepted, uploaded, unavailable, unanswered } = result;
      context.diagnostic(
        `${accepted.size} accepted, ${uploaded.size} with their pictures, ${unavailable} told of an outage, ` +
          `${unanswered} without an answer; ${attempts} attempts at most`,
      );
      await untilNothingIsLeft();
    },
  };
}
