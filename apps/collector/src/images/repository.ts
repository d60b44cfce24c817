import { LeaseLostError } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import type { Tables, UploadOutcome } from '../tables.ts';
import { selectHeldClaimWithListing } from '../queue/fence.ts';
import type { FencingToken } from '../queue/job-types.ts';

/** Metadata of a stored image. Only an image that is about to be recorded has a fingerprint. */
export type StoredImage = {
  sha256: string;
  media_type: string;
  width: number;
  height: number;
  bytes: number;
  fingerprint?: string;
};

/**
 * Error of an image, and the earliest time (RFC 3339) at which an unchanged payload retries it. Without `retry_at`,
 * only a changed payload retries the image.
 */
export type ImageFailure = { error: string; retry_at?: string };

export type ImageOutcome = { position: number; url: string | null } & (
  | UploadOutcome
  | ImageFailure
);

/** Inserts missing image rows. Locks existing rows until the transaction ends, so that a cleanup skips them. */
export async function recordImages(db: Kysely<Tables>, images: readonly StoredImage[]) {
  await sql`insert into images (sha256, media_type, width, height, bytes, fingerprint)
    select distinct on (sha256) * from jsonb_to_recordset(${JSON.stringify(images)}::jsonb)
      as image (sha256 text, media_type text, width integer, height integer, bytes bigint,
        fingerprint bigint)
    order by sha256
    on conflict (sha256) do update set media_type = excluded.media_type where false`.execute(db);
}

/** Returns the metadata of images by hash. Omits unknown hashes. */
export async function findImages(
  db: Kysely<Tables>,
  hashes: readonly string[],
): Promise<Map<string, StoredImage>> {
  if (hashes.length === 0) return new Map();
  const rows = await db
    .selectFrom('images')
    .select(['sha256', 'media_type', 'width', 'height', 'bytes'])
    .where('sha256', 'in', hashes)
    .execute();
  return new Map(rows.map((row) => [row.sha256, row]));
}

/** Returns the hashes that were stored before the job was claimed, which excludes images of the job itself. */
export async function findHashesStoredBefore(
  db: Kysely<Tables>,
  hashes: readonly string[],
  { rawId }: FencingToken,
): Promise<Set<string>> {
  const rows = await db
    .selectFrom('images')
    .select('sha256')
    .where('sha256', '=', sql<string>`any(${hashes}::text[])`)
    .where('created_at', '<', (eb) =>
      eb.selectFrom('raw_data').select('updated_at').where('id', '=', rawId),
    )
    .execute();
  return new Set(rows.map(({ sha256 }) => sha256));
}

/** Returns whether a listing has images, including failed ones. */
export async function hasImages(db: Kysely<Tables>, listingId: number): Promise<boolean> {
  const row = await db
    .selectFrom('listing_images')
    .select('id')
    .where('listing_id', '=', listingId)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/** Returns the previous download results of a listing by URL: hashes and failures. */
export async function findDownloadResults(
  db: Kysely<Tables>,
  listingId: number,
): Promise<{ hashes: Map<string, string>; failures: Map<string, ImageFailure> }> {
  const rows = await db
    .selectFrom('listing_images')
    .select(['url', 'sha256', 'error', 'retry_at'])
    .where('listing_id', '=', listingId)
    .execute();
  const hashes = new Map<string, string>();
  const failures = new Map<string, ImageFailure>();
  for (const { url, sha256, error, retry_at: retryAt } of rows) {
    if (url === null) continue;
    if (sha256 !== null) hashes.set(url, sha256);
    if (error !== null) failures.set(url, createImageFailure(error, retryAt));
  }
  return { hashes, failures };
}

/** Creates the record of a failed image. If `retryAt` is null, only a changed payload retries the image. */
export function createImageFailure(error: string, retryAt: Date | null): ImageFailure {
  return retryAt === null ? { error } : { error, retry_at: retryAt.toISOString() };
}

/** Thrown if a newer payload has updated the listing. */
export class SupersededError extends Error {
  override readonly name = 'SupersededError';

  constructor({ rawId }: FencingToken) {
    super(`A payload newer than raw record ${rawId} has updated the listing`);
  }
}

/**
 * Replaces the images of a listing in one transaction. Also stores upload outcomes with the raw record, because
 * the listing's images may change later.
 * @throws LeaseLostError; SupersededError if a newer payload has updated the listing. In both cases, nothing changes.
 */
export async function replaceImages(
  db: Kysely<Tables>,
  replacement: {
    listingId: number;
    outcomes: readonly ImageOutcome[];
    storedImages: readonly StoredImage[];
    fence: FencingToken;
    areUploads?: boolean;
  },
): Promise<void> {
  const { listingId, outcomes, storedImages, fence, areUploads = false } = replacement;
  await db.transaction().execute(async (trx) => {
    const [claim] = (await selectHeldClaimWithListing(fence).execute(trx)).rows;
    if (claim === undefined) throw new LeaseLostError();
    if (!claim.is_current) throw new SupersededError(fence);
    await recordImages(trx, storedImages);
    await sql`delete from listing_images where listing_id = ${listingId}`.execute(trx);
    await sql`insert into listing_images (listing_id, position, url, sha256, error, retry_at)
      select ${listingId}::bigint, image.* from jsonb_to_recordset(${JSON.stringify(outcomes)}::jsonb)
        as image (position integer, url text, sha256 text, error text, retry_at timestamptz)`.execute(
      trx,
    );
    if (!areUploads) return;
    const uploads = outcomes.map(({ position: _position, url: _url, ...upload }) => upload);
    await trx
      .updateTable('raw_data')
      .set({ uploads: JSON.stringify(uploads) })
      .where('id', '=', fence.rawId)
      .execute();
  });
}
