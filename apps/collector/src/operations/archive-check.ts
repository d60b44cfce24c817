import { isLeaseFree, leaseExpiry } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import pLimit, { type LimitFunction } from 'p-limit';
import { pause } from '../async/wait.ts';
import type { Metrics } from '../metrics.ts';
import type { SafeFetch } from '../safe-fetch/fetch.ts';
import type { Tables } from '../tables.ts';

/** Maximum duration of a run, shorter than the default timeouts of clients, proxies and the shutdown. */
export const DEADLINE_MS = 50_000;

/** Duration of a claim, longer than a run. Unchecked listings are due again when their claim expires. */
const LEASE_MS = 60_000;

/** Timeout for one URL, including redirects. */
const TIMEOUT_MS = 15_000;

/** Maximum number of parallel requests, in total and per host, and the pause before a slot of a host is used again. */
const REQUEST_LIMITS = { parallel: 8, perHost: 2, pauseMs: 250 };

export type ArchiveCheckOptions = {
  limit: number;
  source?: string | undefined;
  /** Excludes listings that were checked or created within this number of hours. */
  notWithinHours?: number | undefined;
  /** Minimum interval between the two checks that find the page gone. */
  minIntervalSeconds: number;
  /** Aborts the run. Unchecked listings stay unchanged. */
  signal?: AbortSignal;
};

/** Requests the URLs of at most `limit` listings, and archives each listing whose page two checks found gone. */
export type ArchiveCheck = (
  options: ArchiveCheckOptions,
) => Promise<{ checked: number; archived: number; unreachable: number }>;

type Claim = { listingId: number; rawId: number; url: string };
type PageCheck = { outcome: 'gone' | 'present' | 'unreachable'; status: number | null };

/**
 * Creates the archive check. A run stops after `DEADLINE_MS` and keeps its partial results. It holds no database
 * connection during a request. Specification 001, Listing archive; Contract 4, Operations.
 */
export function createArchiveCheck(deps: {
  db: Kysely<Tables>;
  fetch: SafeFetch;
  metrics: Pick<Metrics, 'archiveChecks'>;
  log: Logger;
  limits?: typeof REQUEST_LIMITS;
  deadlineMs?: number;
  timeoutMs?: number;
}): ArchiveCheck {
  const { db, fetch, metrics, log, limits = REQUEST_LIMITS, deadlineMs = DEADLINE_MS } = deps;
  const { timeoutMs = TIMEOUT_MS } = deps;

  async function check(claim: Claim, minIntervalSeconds: number, signal: AbortSignal) {
    const pageCheck = await requestPage(fetch, claim.url, signal, timeoutMs);
    const { outcome, status } = pageCheck;
    if (outcome !== 'gone') {
      await recordCheck(db, claim, pageCheck);
      return outcome;
    }
    if (!(await recordGonePage(db, claim, { status, minIntervalSeconds }))) return outcome;
    log.info({ listing_id: claim.listingId, status }, 'a listing was archived');
    return 'archived';
  }

  return async ({ minIntervalSeconds, signal, ...filter }) => {
    const deadline = AbortSignal.timeout(deadlineMs);
    const runSignal = signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
    const limitHost = createHostLimits(limits);
    const counts = { checked: 0, archived: 0, unreachable: 0 };
    const checks = (await claimListings(db, filter)).map((claim) =>
      limitHost(claim.url, runSignal, async () => {
        if (runSignal.aborted) return;
        const outcome = await check(claim, minIntervalSeconds, runSignal);
        counts.checked += 1;
        if (outcome === 'archived' || outcome === 'unreachable') counts[outcome] += 1;
        metrics.archiveChecks.inc({ outcome });
      }).catch((error: unknown) => {
        if (!runSignal.aborted) throw error;
      }),
    );
    await Promise.allSettled(checks);
    await Promise.all(checks);
    return counts;
  };
}

/**
 * Requests a page with GET, because many sites respond to HEAD with an error. Does not read the body. A forbidden URL,
 * a network error, a timeout, a server error or the status 408, 425 or 429 counts as unreachable.
 * @throws `signal.reason`.
 */
async function requestPage(
  fetch: SafeFetch,
  url: string,
  signal: AbortSignal,
  timeoutMs: number,
): Promise<PageCheck> {
  const requestSignal = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  try {
    const response = await fetch(url, { signal: requestSignal, accept: 'text/html, */*;q=0.5' });
    await response.close();
    const { status } = response;
    if (status === 404 || status === 410) return { outcome: 'gone', status };
    const isTemporaryFailure = status >= 500 || [408, 425, 429].includes(status);
    return { outcome: isTemporaryFailure ? 'unreachable' : 'present', status };
  } catch {
    signal.throwIfAborted();
    return { outcome: 'unreachable', status: null };
  }
}

/**
 * Creates limits on parallel requests, in total and per host. Otherwise, a site with many listings would be flooded and
 * delay other sites.
 */
function createHostLimits({ parallel, perHost, pauseMs }: typeof REQUEST_LIMITS) {
  const totalLimit = pLimit(parallel);
  const hosts = new Map<string, LimitFunction>();
  return (url: string, signal: AbortSignal, work: () => Promise<void>) => {
    const host = URL.parse(url)?.host ?? '';
    const limit = hosts.get(host) ?? pLimit(perHost);
    hosts.set(host, limit);
    return limit(async () => {
      await totalLimit(work);
      if (limit.pendingCount > 0) await pause(pauseMs, signal);
    });
  };
}

/**
 * Claims live listings that have a URL: unchecked listings first, then those with the oldest checks. A database trigger
 * adds each listing to `listing_checks` (migration 0027).
 */
async function claimListings(
  db: Kysely<Tables>,
  filter: Pick<ArchiveCheckOptions, 'limit' | 'source' | 'notWithinHours'>,
): Promise<Claim[]> {
  const { limit, source, notWithinHours } = filter;
  const matchesSource = source === undefined ? sql`true` : sql`listing.source_slug = ${source}`;
  const isDue =
    notWithinHours === undefined
      ? sql`true`
      : sql`coalesce(checked_at, listing.created_at) < now() - ${notWithinHours} * interval '1 hour'`;
  const { rows } = await sql<Claim>`
    with chosen as materialized (
      select listing_id, listing_payloads.raw_id, listing.url
      from listing_checks join property_listings as listing on listing.id = listing_id
      join listing_payloads using (source_slug, external_id)
      where listing.url is not null and listing.archived_at is null
        and ${matchesSource} and ${isDue} and ${isLeaseFree('claimed_until')}
      order by checked_at nulls first, listing_id
      limit ${limit}
      for update of listing_checks skip locked),
    claimed as (
      update listing_checks set claimed_until = ${leaseExpiry(LEASE_MS)}
      from chosen where listing_checks.listing_id = chosen.listing_id)
    select listing_id as "listingId", raw_id as "rawId", url from chosen`.execute(db);
  return rows;
}

/** Records that a page is present or unreachable. An unreachable page does not change `gone_since`. */
async function recordCheck(
  db: Kysely<Tables>,
  { listingId }: Claim,
  { outcome, status }: PageCheck,
): Promise<void> {
  const resetClause =
    outcome === 'unreachable' ? sql`` : sql`, gone_since = null, gone_raw_id = null`;
  await sql`
    update listing_checks set checked_at = now(), status = ${status}, claimed_until = null ${resetClause}
    where listing_id = ${listingId}`.execute(db);
}

/**
 * Records that a page is gone. Archives the listing if an earlier check found the page gone at least
 * `minIntervalSeconds` ago and no payload arrived since. Locks the row of the latest payload, so that no concurrent one
 * is missed.
 * @returns Whether the listing was archived.
 */
async function recordGonePage(
  db: Kysely<Tables>,
  { listingId, rawId }: Claim,
  { status, minIntervalSeconds }: { status: number | null; minIntervalSeconds: number },
): Promise<boolean> {
  const { rows } = await sql<{ is_archived: boolean }>`
    with gone_listing as materialized (
      select listing.id
      from listing_checks as earlier
      join property_listings as listing on listing.id = earlier.listing_id
      join listing_payloads as current using (source_slug, external_id)
      where earlier.listing_id = ${listingId} and earlier.gone_raw_id = current.raw_id
        and earlier.gone_since <= now() - ${minIntervalSeconds} * interval '1 second'
      for update of current),
    archived as (
      update property_listings as listing set archived_at = now(), updated_at = now()
      from gone_listing
      where listing.id = gone_listing.id and listing.archived_at is null
      returning listing.id),
    removed as (
      delete from listing_checks using archived where listing_id = archived.id),
    updated_check as (
      update listing_checks set
        checked_at = now(),
        status = ${status},
        gone_since = case when gone_raw_id = ${rawId} then gone_since else now() end,
        gone_raw_id = ${rawId},
        claimed_until = null
      where listing_id = ${listingId} and not exists (select from archived))
    select exists (select from archived) as is_archived`.execute(db);
  return rows[0]?.is_archived ?? false;
}
