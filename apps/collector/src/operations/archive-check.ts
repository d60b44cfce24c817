import { isLeaseFree, leaseExpiry } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import pLimit, { type LimitFunction } from 'p-limit';
import { pause } from '../async/wait.ts';
import type { Metrics } from '../metrics.ts';
import type { SafeFetch } from '../safe-fetch/fetch.ts';
import type { Tables } from '../tables.ts';

/** How long a run of an admin may take: less than clients, proxies and a shutdown wait. */
export const DEADLINE_MS = 50_000;

/** How long a claim lasts: longer than a run. Addresses that a run did not request are due again afterwards. */
const LEASE_MS = 60_000;

/** The longest wait for one address, redirects included. */
const TIMEOUT_MS = 15_000;

/** How many addresses are requested at once, of these from one host, and the pause after each request of a host. */
const LIMITS: HostLimits = { parallel: 8, perHost: 2, pauseMs: 250 };
type HostLimits = { parallel: number; perHost: number; pauseMs: number };

/** The listings of a run, and when two answers that they are gone count. */
export type CheckOptions = {
  limit: number;
  source?: string | undefined;
  /** Leaves out listings that were checked, or created, within so many hours. */
  notWithinHours?: number | undefined;
  /** How far apart two checks must be that find a listing gone. */
  minIntervalSeconds: number;
  /** Ends the run; addresses that were not requested by then stay as they were. */
  signal?: AbortSignal;
};

/** Requests the addresses of listings, and archives the listings that are gone. */
export type ArchiveCheck = (
  options: CheckOptions,
) => Promise<{ checked: number; archived: number; unreachable: number }>;

type Claim = { listingId: number; rawId: number; url: string };
type AddressState = { state: 'gone' | 'present' | 'unreachable'; status: number | null };

/**
 * Creates the archive check. A run ends after `DEADLINE_MS` with what it has done by then. No database connection is held
 * during a request. Specification 001, Listing archive; Contract 4, Operations.
 */
export function createArchiveCheck(deps: {
  db: Kysely<Tables>;
  fetch: SafeFetch;
  metrics: Pick<Metrics, 'archiveChecks'>;
  log: Logger;
  limits?: HostLimits;
  deadlineMs?: number;
  timeoutMs?: number;
}): ArchiveCheck {
  const { db, fetch, metrics, log, limits = LIMITS, deadlineMs = DEADLINE_MS } = deps;
  const { timeoutMs = TIMEOUT_MS } = deps;

  async function check(claim: Claim, minIntervalSeconds: number, signal: AbortSignal) {
    const answer = await requestAddress(fetch, claim.url, signal, timeoutMs);
    const { state, status } = answer;
    if (state !== 'gone') {
      await noteCheck(db, claim, answer);
      return state;
    }
    if (!(await noteGone(db, claim, { status, minIntervalSeconds }))) return 'gone';
    log.info({ listing_id: claim.listingId, status }, 'a listing was archived');
    return 'archived';
  }

  return async ({ minIntervalSeconds, signal, ...choice }) => {
    const deadline = AbortSignal.timeout(deadlineMs);
    const ended = signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
    const limited = limitHosts(limits);
    const result = { checked: 0, archived: 0, unreachable: 0 };
    const checks = (await claimListings(db, choice)).map((claim) =>
      limited(claim.url, ended, async () => {
        if (ended.aborted) return;
        const outcome = await check(claim, minIntervalSeconds, ended);
        result.checked += 1;
        if (outcome === 'archived' || outcome === 'unreachable') result[outcome] += 1;
        metrics.archiveChecks.inc({ outcome });
      }).catch((error: unknown) => {
        if (!ended.aborted) throw error;
      }),
    );
    for (const end of await Promise.allSettled(checks)) {
      if (end.status === 'rejected') throw end.reason;
    }
    return result;
  };
}

/**
 * Requests with GET, since many sites answer HEAD with an error, and hangs up before the body. An address that is not
 * allowed, a host that is silent or broken, and one that throttles (408, 425, 429) reveal nothing about the listing.
 * @throws `signal.reason`.
 */
async function requestAddress(
  fetch: SafeFetch,
  url: string,
  signal: AbortSignal,
  timeoutMs: number,
): Promise<AddressState> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  let status: number;
  try {
    const answer = await fetch(url, { signal: limited, accept: 'text/html, */*;q=0.5' });
    status = answer.status;
    await answer.close();
  } catch {
    signal.throwIfAborted();
    return { state: 'unreachable', status: null };
  }
  if (status === 404 || status === 410) return { state: 'gone', status };
  const isUnknown = status >= 500 || [408, 425, 429].includes(status);
  return { state: isUnknown ? 'unreachable' : 'present', status };
}

/** Limits requests for each host, so that many addresses of one site neither flood it nor delay other sites. */
function limitHosts({ parallel, perHost, pauseMs }: HostLimits) {
  const all = pLimit(parallel);
  const hosts = new Map<string, LimitFunction>();
  return (url: string, signal: AbortSignal, work: () => Promise<void>) => {
    const host = URL.parse(url)?.host ?? '';
    const limit = hosts.get(host) ?? pLimit(perHost);
    hosts.set(host, limit);
    return limit(async () => {
      await all(work);
      if (limit.pendingCount > 0) await pause(pauseMs, signal);
    });
  };
}

/**
 * Claims live listings with an address: those that were never checked, then those that were checked longest ago. A
 * trigger adds each to `listing_checks` (migration 0027).
 */
async function claimListings(
  db: Kysely<Tables>,
  { limit, source, notWithinHours }: Pick<CheckOptions, 'limit' | 'source' | 'notWithinHours'>,
): Promise<Claim[]> {
  const isOfSource = source === undefined ? sql`true` : sql`listing.source_slug = ${source}`;
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
        and ${isOfSource} and ${isDue} and ${isLeaseFree('claimed_until')}
      order by checked_at nulls first, listing_id
      limit ${limit}
      for update of listing_checks skip locked),
    claimed as (
      update listing_checks set claimed_until = ${leaseExpiry(LEASE_MS)}
      from chosen where listing_checks.listing_id = chosen.listing_id)
    select listing_id as "listingId", raw_id as "rawId", url from chosen`.execute(db);
  return rows;
}

/** Notes an answer that is not "gone"; one without meaning keeps what was known. */
async function noteCheck(
  db: Kysely<Tables>,
  { listingId }: Claim,
  { state, status }: AddressState,
): Promise<void> {
  await db
    .updateTable('listing_checks')
    .set({
      checked_at: sql<Date>`now()`,
      status,
      claimed_until: null,
      ...(state === 'unreachable' ? {} : { gone_since: null, gone_raw_id: null }),
    })
    .where('listing_id', '=', listingId)
    .execute();
}

/**
 * Notes that an address is gone, and archives the listing if it was so `minIntervalSeconds` before and no payload has come
 * since. The row of its last payload is locked, so that a concurrent one is either seen or brings the listing back.
 * @returns Whether it was archived.
 */
export async function noteGone(
  db: Kysely<Tables>,
  { listingId, rawId }: Claim,
  { status, minIntervalSeconds }: { status: number | null; minIntervalSeconds: number },
): Promise<boolean> {
  const { rows } = await sql<{ is_archived: boolean }>`
    with unseen as materialized (
      select listing.id
      from listing_checks as earlier
      join property_listings as listing on listing.id = earlier.listing_id
      join listing_payloads as current using (source_slug, external_id)
      where earlier.listing_id = ${listingId} and earlier.gone_raw_id = current.raw_id
        and earlier.gone_since <= now() - ${minIntervalSeconds} * interval '1 second'
      for update of current),
    archived as (
      update property_listings as listing set archived_at = now(), updated_at = now()
      from unseen
      where listing.id = unseen.id and listing.archived_at is null
      returning listing.id),
    removed as (
      delete from listing_checks using archived where listing_id = archived.id),
    noted as (
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
