import { setTimeout as sleep } from 'node:timers/promises';
import { expireLeases, withLease } from '@oselya/db';
import type { Logger, Server } from '@oselya/kit';
import { type Kysely, sql, type Transaction } from 'kysely';
import { hasPermission } from '../access/permissions.ts';
import { sendUnaskedMessage } from '../conversations/unasked-message.ts';
import { CollectorError, type Listing } from '../collector/client.ts';
import { type LifetimeConfig, whereAuthSessionActive } from '../identity/auth-sessions.ts';
import { readPermissions, readRole } from '../identity/users.ts';
import type { Tables } from '../tables.ts';
import { composeDigest } from './digest-text.ts';
import { requestCollector, type FeedDeps, whereActive, isStillHit, readFeed } from './feed.ts';
import type { Search } from './search.ts';

/** Row with the lease of the process that reads the feed. */
const FEED_LEASE = { table: 'collector_feed', key: { id: true } };
const LEASE_MS = 60_000;

const MAX_BATCH_SIZE = 100;

const MAX_IDS_PER_REQUEST = 100;

/** Maximum number of hits in a digest, which contains the newest hits. Older hits wait for the next digest. */
const MAX_HITS = 1000;

/** Dependencies of the feed and of digests. Digests need `config`, because only users who are signed in get them. */
type DigestDeps = Omit<FeedDeps, 'log'> & {
  config: LifetimeConfig;
  log: Pick<Logger, 'info' | 'warn'>;
};

/**
 * Creates the digest service: `runPass` reads the collector's feed and sends due digests. `run` repeats it under the
 * lease until the signal is aborted. Neither throws.
 * @see docs/adr/0025-saved-searches.md
 */
export function createDigestService(deps: DigestDeps) {
  const { db, metrics, log } = deps;
  let isFailing = false;

  async function runPass(signal: AbortSignal): Promise<void> {
    try {
      metrics.setActiveSearchCount(await countActiveSearches(db));
      await readFeed(deps, signal);
      await sendDigests(deps, signal);
      if (isFailing) log.info({}, "the collector's change feed is read again");
      isFailing = false;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof CollectorError)) {
        log.warn({ err: error }, 'saved searches could not be processed');
        return;
      }
      metrics.countFailure();
      if (isFailing) return;
      isFailing = true;
      log.warn(
        { err: error },
        "the collector's change feed cannot be read; saved searches continue when it can",
      );
    }
  }

  /** Repeats `runPass` under the lease. If `isExclusive`, no other process runs, so a lease at startup is stale. */
  async function run(
    { pollMs, isExclusive }: { pollMs: number; isExclusive: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    const pause = (leaseSignal: AbortSignal) =>
      sleep(pollMs, undefined, { signal: leaseSignal, ref: false }).catch(() => undefined);
    let isFirst = true;
    while (!signal.aborted) {
      try {
        if (isExclusive && isFirst) await expireLeases(db, FEED_LEASE.table);
        isFirst = false;
        await withLease(db, FEED_LEASE, { durationMs: LEASE_MS, signal }, async (leaseSignal) => {
          while (!leaseSignal.aborted) {
            await runPass(leaseSignal);
            await pause(leaseSignal);
          }
        });
      } catch (error) {
        if (!signal.aborted) log.warn({ err: error }, 'saved searches could not be processed');
      }
      metrics.setCaughtUpAt(undefined);
      metrics.setActiveSearchCount(0);
      await pause(signal);
    }
  }

  return { runPass, run };
}

/**
 * Processes saved searches while the server listens.
 * @param options.pollSeconds SAVED_SEARCH_POLL_SECONDS. With 0, this process does not process saved searches.
 */
export function processSavedSearches(
  app: Server,
  { pollSeconds, isExclusive, ...deps }: DigestDeps & { pollSeconds: number; isExclusive: boolean },
): void {
  if (pollSeconds === 0) return;
  const closeController = new AbortController();
  let runPromise: Promise<void> | undefined;
  app.addHook('onListen', (done) => {
    const options = { pollMs: pollSeconds * 1000, isExclusive };
    runPromise = createDigestService(deps).run(options, closeController.signal);
    done();
  });
  app.addHook('onClose', async () => {
    closeController.abort();
    await runPromise;
  });
}

async function countActiveSearches(db: Kysely<Tables>): Promise<number> {
  const { count } = await db
    .selectFrom('saved_searches')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where(whereActive)
    .executeTakeFirstOrThrow();
  return count;
}

/** Selects active searches that have hits to report and no recent digest, and whose user is signed in. */
const selectDueSearches = (db: Kysely<Tables>, config: LifetimeConfig) =>
  db
    .selectFrom('saved_searches')
    .innerJoin('svc_users', 'svc_users.id', 'saved_searches.user_id')
    .select(['saved_searches.id', 'user_id', 'session_id', 'name', 'role', 'permissions'])
    .select(sql<Search>`search`.as('search'))
    .where(whereActive)
    .where(
      sql<boolean>`(saved_searches.told_at is null
        or saved_searches.told_at + make_interval(mins => every_minutes) <= now())`,
    ).where(sql<boolean>`exists (select from saved_search_hits hits
      where hits.search_id = saved_searches.id and hits.told_at is null)`)
    .where(sql<boolean>`exists (select from user_auth_sessions s
      where s.user_id = saved_searches.user_id and ${whereAuthSessionActive(config)})`);

type DueSearch = Awaited<
  ReturnType<ReturnType<typeof selectDueSearches>['executeTakeFirstOrThrow']>
>;

const canReceiveDigests = ({ role, permissions }: DueSearch) =>
  hasPermission(
    { role: readRole(role), permissions: readPermissions(permissions) },
    'svc.tools.use',
  );

/**
 * Sends the due digests. A session with a running turn gets its digest in a later pass. Logs and skips a digest that
 * cannot be sent, unless the collector fails.
 * @throws CollectorError if the collector fails; an error of the query for due searches; the signal's reason.
 */
async function sendDigests(deps: DigestDeps, signal: AbortSignal): Promise<void> {
  const { db, config, log } = deps;
  for (let after = ''; ;) {
    const dueSearches = await selectDueSearches(db, config)
      .where('saved_searches.id', '>', after)
      .where(sql<boolean>`not exists (select from chat_turns
        where chat_turns.session_id = saved_searches.session_id and status = 'running')`)
      .orderBy('saved_searches.id')
      .limit(MAX_BATCH_SIZE)
      .execute();
    for (const search of dueSearches.filter(canReceiveDigests)) {
      try {
        await sendDigest(deps, search, signal);
      } catch (error) {
        signal.throwIfAborted();
        const isRejected = error instanceof CollectorError && error.status === 422;
        if (error instanceof CollectorError && !isRejected) throw error;
        log.warn({ err: error, saved_search_id: search.id }, 'a digest could not be sent');
      }
    }
    after = dueSearches.at(-1)?.id ?? after;
    if (dueSearches.length < MAX_BATCH_SIZE) return;
  }
}

/** Reports the newest hits that a search still finds. The others among them are deleted, and can be found again. */
async function sendDigest(
  { db, collector, config, metrics }: DigestDeps,
  { id, user_id: userId, session_id, search }: DueSearch,
  signal: AbortSignal,
): Promise<void> {
  const hits = await db
    .selectFrom('saved_search_hits')
    .select(['listing_id', 'kind', 'old_price as oldPrice'])
    .select(sql<string | null>`listing ->> 'currency'`.as('currency'))
    .where('search_id', '=', id)
    .where('told_at', 'is', null)
    .orderBy('found_at', 'desc')
    .orderBy('listing_id', 'desc')
    .limit(MAX_HITS)
    .execute();
  const listings = new Map<number, Listing>();
  for (let offset = 0; offset < hits.length; offset += MAX_IDS_PER_REQUEST) {
    const ids = hits
      .slice(offset, offset + MAX_IDS_PER_REQUEST)
      .map(({ listing_id }) => listing_id);
    const request = (requestSignal: AbortSignal) =>
      collector.findMatches({ ...search, ids }, requestSignal);
    const matchingListings = await requestCollector(request, signal);
    for (const listing of matchingListings) listings.set(listing.listing_id, listing);
  }
  const reportedHits = hits.flatMap((hit) => {
    const listing = listings.get(hit.listing_id);
    return listing !== undefined && isStillHit(hit, listing) ? [{ ...hit, listing }] : [];
  });

  const session = { userId, sessionId: session_id ?? '' };
  const wasSent = await sendUnaskedMessage(db, session, async (trx) => {
    const lockedSearch = await selectDueSearches(trx, config)
      .where('saved_searches.id', '=', id)
      .where('session_id', '=', session_id)
      .where(sql<boolean>`search = ${JSON.stringify(search)}::jsonb`)
      .forUpdate('saved_searches')
      .executeTakeFirst();
    if (lockedSearch === undefined || !canReceiveDigests(lockedSearch)) return undefined;
    await markReported(trx, id, { checkedHits: hits, reportedHits });
    if (reportedHits.length === 0) return undefined;
    return composeDigest({
      name: lockedSearch.name,
      query: search.query ?? '',
      hits: reportedHits,
    });
  });
  if (wasSent) metrics.countDigest(reportedHits.length);
}

type Hits = readonly { listing_id: number }[];

/** Marks hits as reported, deletes the other checked hits, and stores the time of the digest. */
async function markReported(
  trx: Transaction<Tables>,
  searchId: string,
  { checkedHits, reportedHits }: { checkedHits: Hits; reportedHits: Hits },
): Promise<void> {
  const ids = reportedHits.map(({ listing_id }) => listing_id);
  const reportedIds = new Set(ids);
  const obsoleteIds = checkedHits
    .map(({ listing_id }) => listing_id)
    .filter((id) => !reportedIds.has(id));
  const whereUnreported = sql<boolean>`search_id = ${searchId} and told_at is null`;
  await trx
    .deleteFrom('saved_search_hits')
    .where(whereUnreported)
    .where(sql<boolean>`listing_id = any(${obsoleteIds}::bigint[])`)
    .execute();
  if (ids.length === 0) return;
  await trx
    .updateTable('saved_search_hits')
    .set({ told_at: sql<Date>`now()`, listing: null })
    .where(whereUnreported)
    .where(sql<boolean>`listing_id = any(${ids}::bigint[])`)
    .execute();
  await trx
    .updateTable('saved_searches')
    .set({ told_at: sql<Date>`now()` })
    .where('id', '=', searchId)
    .execute();
}
