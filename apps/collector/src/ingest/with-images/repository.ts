import { type Kysely, sql } from 'kysely';
import type { RawError, RawStatus, Tables, UploadOutcome } from '../../tables.ts';

/** Where a payload has come to: `error` of one that ended badly, `listing_id` of one that is `completed`. */
export type Outcome = {
  status: RawStatus;
  error: RawError | null;
  listing_id: number | null;
  images: UploadOutcome[];
};

/**
 * How a payload ended. Its images are those that came along; of a payload that said nothing new they are
 * the listing's, and of one that names addresses what became of those, for as long as the listing was made from it or
 * from one that says the same.
 */
export async function findOutcome(db: Kysely<Tables>, rawId: number): Promise<Outcome | undefined> {
  const { rows } = await sql<Outcome>`
    select status, error, listing_id,
      case when jsonb_array_length(coalesce(uploads, '[]')) > 0 then uploads else coalesce((
        select jsonb_agg(
          case when images.sha256 is null
            then jsonb_build_object('error', listing_images.error)
            else jsonb_build_object('sha256', images.sha256, 'width', images.width,
              'height', images.height, 'duplicate', images.created_at < raw_data.created_at)
          end order by listing_images.position)
        from property_listings
        join listing_payloads using (source_slug, external_id)
        join listing_images on listing_images.listing_id = property_listings.id
        left join images on images.sha256 = listing_images.sha256
        where property_listings.id = raw_data.listing_id
          and (listing_payloads.raw_id = raw_data.id
            or listing_payloads.completed_hash = raw_data.content_hash)), '[]') end as images
    from raw_data where id = ${rawId}`.execute(db);
  return rows[0];
}
