import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { type Compared, COMPARED_COLUMNS } from './compared.ts';
import { TEXT_LENGTH } from './text-similarity.ts';

/** Pictures of one listing that are compared: the first ones. */
export const MAX_COMPARED_PICTURES = 20;

type PictureRow = { sha256: string; fingerprint: string | null };

/** Loads listings as they are compared, by their ids; one that does not exist is missing. */
export async function loadCompared(
  db: Kysely<Tables>,
  ids: readonly number[],
): Promise<Map<number, Compared>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('property_listings')
    .select(COMPARED_COLUMNS)
    .select(sql<string>`left(search_text, ${TEXT_LENGTH})`.as('text'))
    .select(
      sql<PictureRow[]>`(
        select coalesce(jsonb_agg(shown), '[]') from (
          select distinct on (images.sha256) images.sha256, images.fingerprint::text
          from listing_images join images on images.sha256 = listing_images.sha256
          where listing_images.listing_id = property_listings.id
            and listing_images.position < ${MAX_COMPARED_PICTURES}) as shown)`.as('pictures'),
    )
    .where('id', 'in', ids)
    .execute();
  return new Map(
    rows.map(({ pictures, ...row }) => [row.id, { ...row, pictures: pictures.map(readPicture) }]),
  );
}

function readPicture({ sha256, fingerprint }: PictureRow) {
  return { sha256, fingerprint: fingerprint === null ? null : BigInt(fingerprint) };
}
