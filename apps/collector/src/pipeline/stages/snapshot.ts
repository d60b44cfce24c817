import { LeaseLostError, prepared } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';
import { type ValueProvider, getProvider } from '../../listing/provenance.ts';
import { resolveListingPlace } from '../../places/listing-place.ts';
import { writeToListing } from '../../queue/fence.ts';
import type { FencingToken } from '../../queue/job-types.ts';
import { type JobContext, requireOutput, type StageRun } from '../context.ts';
import {
  diffStates,
  isMaterialChange,
  buildListingState,
  resolveStoredState,
  type StoredState,
  TRACKED_FIELDS,
} from '../listing-state.ts';
import { DONE_RESULT, SKIPPED_RESULT, SUPERSEDED_RESULT } from '../outcome.ts';

/**
 * Records the state of the listing and its changes since the previous snapshot: one row per payload that changes the
 * listing, and one per reprocessing with a different result. Payloads that only reword the model's text add no row
 * (docs/adr/0018-model-wording.md). Specification 001, What the service does, 2; Contract 4, Listings.
 */
export const snapshot: StageRun = async (context, { db }) => {
  const { job } = context;
  const listingId = requireOutput(context, 'listingId');
  const priorStates = await findPriorStates(db, job, listingId);
  const { revision, samePayloadState, earlierState, earlierTitleProvider } = priorStates;
  const state = {
    ...buildListingState(requireOutput(context, 'payload'), requireOutput(context, 'facts')),
    pictures: getImages(context, priorStates),
  };
  const { model, prompt_version: promptVersion, fields } = requireOutput(context, 'provenance');
  const changes =
    earlierState === null
      ? {}
      : diffStates(withCanonicalPlace(resolveStoredState(earlierState)), state, TRACKED_FIELDS);
  const isChanged =
    revision > 0
      ? Object.keys(changes).length > 0
      : isMaterialChange(changes, fields, earlierTitleProvider);
  if (earlierState !== null && samePayloadState === null && !isChanged) return SKIPPED_RESULT;
  const titleBy = getProvider(fields['title']) ?? null;
  const isWritten = await writeToListing(
    db,
    job,
    sql`insert into listing_snapshots
        (listing_id, raw_id, revision, listing, changes, title_by, model, prompt_version)
      select ${listingId}::bigint, ${job.rawId}::bigint, ${revision}::integer,
        ${JSON.stringify(state)}::jsonb, ${JSON.stringify(changes)}::jsonb,
        ${titleBy}::text, ${model}::text, ${promptVersion}::text
      from claim where claim.is_current
      on conflict (listing_id, raw_id, revision)
        do update set listing = excluded.listing, changes = excluded.changes,
          title_by = excluded.title_by, model = excluded.model,
          prompt_version = excluded.prompt_version`,
  );
  return isWritten ? DONE_RESULT : SUPERSEDED_RESULT;
};

/** Returns the upload hashes or the image URLs. Returns the earlier value if the listing keeps its images. */
function getImages(context: JobContext, { samePayloadState, earlierState }: PriorStates): unknown {
  const { uploads, extractionRecord } = context;
  if (uploads !== undefined) return uploads.map(({ sha256 }) => sha256);
  const storedImages = samePayloadState?.['pictures'] ?? earlierState?.['pictures'];
  return extractionRecord !== undefined || requireOutput(context, 'hasUploads')
    ? storedImages
    : (requireOutput(context, 'payload').image_urls ?? []);
}

/** Returns a stored state with the canonical names of its place, which states from before migration 0028 lack. */
function withCanonicalPlace(state: StoredState): StoredState {
  const getText = (name: string) => {
    const value = state[name];
    return typeof value === 'string' ? value : null;
  };
  if (getText('city') === null && getText('district') === null) return state;
  const { city, district } = resolveListingPlace({
    city: getText('city'),
    district: getText('district'),
    address: getText('address'),
    title: getText('title'),
    description: getText('description') ?? '',
  });
  return { ...state, city, district };
}

type PriorStates = {
  /** Last attempt that reprocessed the payload; 0 if the payload was never reprocessed. */
  revision: number;
  /** State that an earlier attempt stored for the same payload and revision. */
  samePayloadState: StoredState | null;
  earlierState: StoredState | null;
  /** Provider of the earlier title. Null if there is none, or if it is unknown (before migration 0023). */
  earlierTitleProvider: ValueProvider | null;
};

async function findPriorStates(
  db: Kysely<Tables>,
  job: FencingToken,
  listingId: number,
): Promise<PriorStates> {
  const { rows } = await sql<PriorStates>`${prepared}
    select raw.revision,
      (select listing from listing_snapshots as snapshot
        where listing_id = ${listingId}
          and snapshot.raw_id = raw.id and snapshot.revision = raw.revision) as "samePayloadState",
      previous.listing as "earlierState", previous.title_by as "earlierTitleProvider"
    from raw_data as raw
    left join lateral (
      select listing, title_by from listing_snapshots as snapshot
      where listing_id = ${listingId}
        and (snapshot.raw_id, snapshot.revision) < (raw.id, raw.revision)
      -- Corrections have negative revisions, so the IDs have the order in time.
      order by snapshot.id desc limit 1) as previous on true
    where raw.id = ${job.rawId}`.execute(db);
  const [priorStates] = rows;
  if (priorStates === undefined) throw new LeaseLostError();
  return priorStates;
}
