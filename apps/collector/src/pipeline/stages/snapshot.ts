import { sql } from 'kysely';
import { heldClaim } from '../../queue/fence.ts';
import { LeaseLostError } from '../../queue/job.ts';
import { product } from '../context.ts';
import { diffStates, listingState } from '../listing-state.ts';
import { done } from '../outcome.ts';
import type { StageRun } from '../stage.ts';

/**
 * Records what the listing is now, who read it so, and what changed since the payload before, one row a
 * payload. The first one has no changes. Contract 4, Listings.
 */
export const snapshot: StageRun = async (context, { db }) => {
  const { job } = context;
  const listingId = product(context, 'listingId');
  const state = listingState(product(context, 'payload'), product(context, 'facts'));
  const { model, prompt_version } = product(context, 'provenance');
  const before = await db
    .selectFrom('listing_snapshots')
    .select('listing')
    .where('listing_id', '=', listingId)
    .where('raw_id', '<', job.rawId)
    .orderBy('raw_id', 'desc')
    .limit(1)
    .executeTakeFirst();
  const changes = before === undefined ? {} : diffStates(before.listing, state);
  const { rows } = await sql`
    with claim as materialized (${heldClaim(job)})
    insert into listing_snapshots (listing_id, raw_id, listing, changes, model, prompt_version)
    select ${listingId}::bigint, ${job.rawId}::bigint,
      ${JSON.stringify(state)}::jsonb, ${JSON.stringify(changes)}::jsonb,
      ${model}::text, ${prompt_version}::text
    from claim
    on conflict (listing_id, raw_id)
      do update set listing = excluded.listing, changes = excluded.changes,
        model = excluded.model, prompt_version = excluded.prompt_version
    returning id`.execute(db);
  if (rows.length === 0) throw new LeaseLostError(job);
  return done;
};
