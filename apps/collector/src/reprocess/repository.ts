import { type Kysely, sql } from 'kysely';
import type { RawStatus, Tables } from '../database.ts';
import type { Payload } from '../ingest/schemas.ts';
import { FACTS } from '../listings/facts.ts';
import type { Job } from '../queue/job.ts';

/** Which listings to process again. */
export type Choice = {
  source?: string | undefined;
  listingId?: number | undefined;
  /** Only those that were read by another prompt, or by a model that was asked for by another name. */
  outdated?: { promptVersion: string; requestedModel: string } | undefined;
};

const provenance = (key: string) => sql<string | null>`provenance.value ->> ${key}`;

function select(db: Kysely<Tables>, { source, listingId, outdated }: Choice) {
  return db
    .selectFrom('property_listings as listing')
    .leftJoin('raw_data as raw', 'raw.id', 'listing.raw_id')
    .leftJoin('listing_enrichments as provenance', (join) =>
      join
        .onRef('provenance.listing_id', '=', 'listing.id')
        .on('provenance.kind', '=', 'provenance'),
    )
    .$if(source !== undefined, (query) => query.where('listing.source_slug', '=', source ?? ''))
    .$if(listingId !== undefined, (query) => query.where('listing.id', '=', listingId ?? 0))
    .$if(outdated !== undefined, (query) =>
      query.where((eb) =>
        eb.or([
          eb(provenance('prompt_version'), 'is distinct from', outdated?.promptVersion ?? ''),
          eb(provenance('requested_model'), 'is distinct from', outdated?.requestedModel ?? ''),
        ]),
      ),
    );
}

/** How many listings a choice is. */
export async function countChosen(db: Kysely<Tables>, choice: Choice): Promise<number> {
  const { n } = await select(db, choice)
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow();
  return n;
}

/** A listing as it stands, and the payload that it was made from last; null once that was cleaned up. */
export type Candidate = Awaited<ReturnType<typeof listChosen>>[number];

/** Chosen listings after an id, in the order of their ids. */
export function listChosen(
  db: Kysely<Tables>,
  choice: Choice,
  { after, limit }: { after: number; limit: number },
) {
  return (
    select(db, choice)
      .select(['listing.id', 'listing.raw_id', 'raw.status'])
      .select(FACTS.map((key) => `listing.${key}` as const))
      // The ingest has checked it.
      .select(sql<Payload | null>`raw.payload`.as('payload'))
      .where('listing.id', '>', after)
      .orderBy('listing.id')
      .limit(limit)
      .execute()
  );
}

/** The statuses of payloads whose listing nobody is working on. */
export const ENDED: readonly RawStatus[] = ['completed', 'failed', 'invalid'];

/**
 * Claims the payload that a listing was made from last, to process it again: with all its attempts.
 * @returns Undefined where the listing was made from another meanwhile, or will soon be.
 */
export async function claimAgain(
  db: Kysely<Tables>,
  { rawId, listingId }: { rawId: number; listingId: number },
  { worker, leaseMs }: { worker: string; leaseMs: number },
): Promise<Job | undefined> {
  const { rows } = await sql<Job>`
    update raw_data set
      status = 'processing',
      attempt = attempt + 1,
      attempts = 1,
      claimed_by = ${worker},
      lease_expires_at = now() + ${leaseMs} * interval '1 millisecond',
      error = null,
      stages = '[]',
      updated_at = now()
    where id = (
      select raw.id from raw_data as raw
      join property_listings as listing on listing.raw_id = raw.id
      where raw.id = ${rawId} and listing.id = ${listingId} and raw.status = any(${[...ENDED]})
        and not exists (
          select from raw_data as other
          where other.source_slug = raw.source_slug and other.external_id = raw.external_id
            and other.status in ('pending', 'processing'))
      for update of raw skip locked)
    returning id as "rawId", attempt, source_slug as "sourceSlug", external_id as "externalId",
      content_hash as "contentHash"`.execute(db);
  return rows[0];
}
