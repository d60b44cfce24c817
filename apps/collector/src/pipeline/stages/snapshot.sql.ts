import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';
import { type Fence, heldListing, LeaseLostError } from '../../queue/index.ts';
import type { Namer } from '../../listing/provenance.ts';
import type { Changes } from '../listing-state.ts';

type State = Readonly<Record<string, unknown>>;

/** What is recorded of a payload and of its listing already. */
export type PriorStates = {
  /** At which attempt the payload was taken to be read again; 0 for one that came from its source. */
  revision: number;
  /** By an earlier attempt of the same revision. */
  own: State | null;
  /** Before it: by another payload, or by this one when it was read before. */
  before: State | null;
  /** Who named the title before it; null where nobody did, or it was recorded before 0023. */
  titleBefore: Namer | null;
};

/**
 * The states that a listing's snapshots have of a payload and from before it.
 * @throws LeaseLostError where there is no such payload any more.
 */
export async function findPriorStates(
  db: Kysely<Tables>,
  job: Fence,
  listingId: number,
): Promise<PriorStates> {
  const { rows } = await sql<PriorStates>`
    select raw.revision,
      (select listing from listing_snapshots as snapshot
        where listing_id = ${listingId}
          and snapshot.raw_id = raw.id and snapshot.revision = raw.revision) as own,
      before.listing as before, before.title_by as "titleBefore"
    from raw_data as raw
    left join lateral (
      select listing, title_by from listing_snapshots as snapshot
      where listing_id = ${listingId}
        and (snapshot.raw_id, snapshot.revision) < (raw.id, raw.revision)
      order by snapshot.raw_id desc, snapshot.revision desc limit 1) as before on true
    where raw.id = ${job.rawId}`.execute(db);
  const [prior] = rows;
  if (prior === undefined) throw new LeaseLostError(job);
  return prior;
}

/** What a payload makes of a listing, what of that is new, and who read it so. */
export type Snapshot = {
  revision: number;
  state: State;
  changes: Changes;
  titleBy: Namer | null;
  model: string;
  promptVersion: string;
};

/**
 * Writes a snapshot, in place of the one that an earlier attempt of the same revision may have left.
 * @returns Whether the listing is still what this job made of it: else nothing is written.
 * @throws LeaseLostError.
 */
export async function writeSnapshot(
  db: Kysely<Tables>,
  job: Fence,
  listingId: number,
  { revision, state, changes, titleBy, model, promptVersion }: Snapshot,
): Promise<boolean> {
  const { rows } = await sql<{ is_current: boolean }>`
    with claim as materialized (${heldListing(job)}),
    stored as (
      insert into listing_snapshots
        (listing_id, raw_id, revision, listing, changes, title_by, model, prompt_version)
      select ${listingId}::bigint, ${job.rawId}::bigint, ${revision}::integer,
        ${JSON.stringify(state)}::jsonb, ${JSON.stringify(changes)}::jsonb,
        ${titleBy}::text, ${model}::text, ${promptVersion}::text
      from claim where claim.is_current
      on conflict (listing_id, raw_id, revision)
        do update set listing = excluded.listing, changes = excluded.changes,
          title_by = excluded.title_by, model = excluded.model, prompt_version = excluded.prompt_version)
    select is_current from claim`.execute(db);
  if (rows[0] === undefined) throw new LeaseLostError(job);
  return rows[0].is_current;
}
