import { type Kysely, sql } from 'kysely';
import type { ModelUsage, Tables } from '../database/tables.ts';
import type { Payload } from '../payload/schema.ts';
import { FACTS } from '../listings/facts.ts';
import { ofListing } from '../listings/payloads.sql.ts';
import { costWith } from '../queue/index.ts';

/** Which listings to process again. */
export type Choice = {
  source?: string | undefined;
  listingId?: number | undefined;
  /** Only listings with a larger id: they are read in the order of their ids. */
  after?: number | undefined;
  /** Only those that were read by another prompt, or by a model that was asked for by another name. */
  outdated?: { promptVersion: string; requestedModel: string } | undefined;
};

const provenance = (key: string) => sql<string | null>`provenance.value ->> ${key}`;

function select(db: Kysely<Tables>, { source, listingId, after, outdated }: Choice) {
  return db
    .selectFrom('property_listings as listing')
    .innerJoin('listing_payloads as current', ofListing)
    .leftJoin('raw_data as raw', 'raw.id', 'current.raw_id')
    .leftJoin('listing_enrichments as provenance', (join) =>
      join
        .onRef('provenance.listing_id', '=', 'listing.id')
        .on('provenance.kind', '=', 'provenance'),
    )
    .$if(source !== undefined, (query) => query.where('listing.source_slug', '=', source ?? ''))
    .$if(listingId !== undefined, (query) => query.where('listing.id', '=', listingId ?? 0))
    .$if(after !== undefined, (query) => query.where('listing.id', '>', after ?? 0))
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
export type Chosen = Awaited<ReturnType<typeof listChosen>>[number];

/** The first of the chosen listings, in the order of their ids. */
export function listChosen(db: Kysely<Tables>, choice: Choice, limit: number) {
  return (
    select(db, choice)
      .select(['listing.id', 'current.raw_id', 'raw.status'])
      .select(FACTS.map((key) => `listing.${key}` as const))
      // The ingest has checked it.
      .select(sql<Payload | null>`raw.payload`.as('payload'))
      .orderBy('listing.id')
      .limit(limit)
      .execute()
  );
}

/** Adds what a reading cost to what the payload has cost so far. */
export async function addModelUsage(
  db: Kysely<Tables>,
  rawId: number,
  usage: ModelUsage,
): Promise<void> {
  await sql`
    update raw_data set model_usage = ${costWith(sql`${JSON.stringify(usage)}::jsonb`)}
    where id = ${rawId}`.execute(db);
}
