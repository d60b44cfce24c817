import { sql } from 'kysely';
import { TRACKED_FACTS } from '../../listings/facts.ts';
import { heldClaim } from '../../queue/fence.ts';
import { LeaseLostError } from '../../queue/job.ts';
import { type Context, product } from '../context.ts';
import { diffStates, listingState } from '../listing-state.ts';
import { isNews } from '../news.ts';
import { done, skipped } from '../outcome.ts';
import type { StageRun } from '../stage.ts';
import { type Earlier, findEarlier } from './snapshot.sql.ts';

/** What a snapshot has beside the facts of the listing. */
const TRACKED = [...TRACKED_FACTS, 'pictures'];

/**
 * Records what the listing is now, who read it so, and all that changed since the payload before, one row a
 * payload. The first one has no changes. A payload with which only the model's words are others makes none:
 * the next one shows them. Specification 001, What the service does, 2; Contract 4, Listings.
 */
export const snapshot: StageRun = async (context, { db }) => {
  const { job } = context;
  const listingId = product(context, 'listingId');
  const earlier = await findEarlier(db, listingId, job.rawId);
  const state = {
    ...listingState(product(context, 'payload'), product(context, 'facts')),
    pictures: picturesOf(context, earlier),
  };
  const { model, prompt_version, fields } = product(context, 'provenance');
  const { own, before } = earlier;
  const changes = before === undefined ? {} : diffStates(before, state, TRACKED);
  const isDue = before === undefined || own !== undefined || isNews(changes, fields);
  const { rows } = await sql<{ held: boolean }>`
    with claim as materialized (${heldClaim(job)}),
    stored as (
      insert into listing_snapshots (listing_id, raw_id, listing, changes, model, prompt_version)
      select ${listingId}::bigint, ${job.rawId}::bigint,
        ${JSON.stringify(state)}::jsonb, ${JSON.stringify(changes)}::jsonb,
        ${model}::text, ${prompt_version}::text
      from claim where ${isDue}
      on conflict (listing_id, raw_id)
        do update set listing = excluded.listing, changes = excluded.changes,
          model = excluded.model, prompt_version = excluded.prompt_version)
    select exists (select from claim) as held`.execute(db);
  if (rows[0]?.held !== true) throw new LeaseLostError(job);
  return isDue ? done : skipped;
};

/**
 * The pictures that the payload brings: their addresses, or the SHA-256 of those that came along. A payload
 * that is only read again, or whose pictures came along with its first attempt, leaves them as they were.
 */
function picturesOf(context: Context, { own, before, hasUploads }: Earlier): unknown {
  const { uploads, extracted } = context;
  if (uploads !== undefined) return uploads.map(({ sha256 }) => sha256);
  const known = own?.['pictures'] ?? before?.['pictures'];
  return extracted !== undefined || hasUploads
    ? known
    : (product(context, 'payload').image_urls ?? []);
}
