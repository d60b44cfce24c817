import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { type Fence, heldListing, LeaseLostError, SupersededError } from '../queue/index.ts';
import type { ImageOutcome, Miss } from './outcome.ts';
import { RETRY_AFTER_MS } from './retry-time.ts';

/** The facts of stored bytes. */
export type StoredImage = {
  sha256: string;
  media_type: string;
  width: number;
  height: number;
  bytes: number;
  /** See `fingerprint`; missing where it is stored already, or not worked out yet. */
  fingerprint?: string;
};

/** The facts of the bytes with these hashes, by hash; unknown ones are missing. */
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

/** The hashes of stored bytes whose fingerprint is not worked out yet: those after one, in their order. */
export async function listWithoutFingerprint(
  db: Kysely<Tables>,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const rows = await db
    .selectFrom('images')
    .select('sha256')
    .where('fingerprint', 'is', null)
    .where('sha256', '>', after)
    .orderBy('sha256')
    .limit(limit)
    .execute();
  return rows.map(({ sha256 }) => sha256);
}

/** Adds the fingerprint of stored bytes, unless they have got one meanwhile. */
export async function addFingerprint(
  db: Kysely<Tables>,
  sha256: string,
  fingerprint: string,
): Promise<void> {
  await db
    .updateTable('images')
    .set({ fingerprint })
    .where('sha256', '=', sha256)
    .where('fingerprint', 'is', null)
    .execute();
}

/**
 * Which of these hashes were stored before a job's record was claimed: not those that the job stored itself, be
 * it when its stage was tried before. A record in progress was last changed when it was claimed.
 */
export async function findStoredBefore(
  db: Kysely<Tables>,
  hashes: readonly string[],
  { rawId }: Fence,
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

/** What the addresses of a listing's pictures gave the last time: a hash, or a reason, by address. */
export async function findFetched(
  db: Kysely<Tables>,
  listingId: number,
): Promise<{ hashes: Map<string, string>; misses: Map<string, Miss> }> {
  const rows = await db
    .selectFrom('listing_images')
    .select(['url', 'sha256', 'error', 'retry_at'])
    .where('listing_id', '=', listingId)
    .execute();
  const hashes = new Map<string, string>();
  const misses = new Map<string, Miss>();
  for (const { url, sha256, error, retry_at: retryAt } of rows) {
    if (url === null) continue;
    if (sha256 !== null) hashes.set(url, sha256);
    if (error !== null) misses.set(url, missOf(error, retryAt));
  }
  return { hashes, misses };
}

/**
 * A row's reason as callers get it.
 * @param retryAt From when on the address may be asked again.
 */
export function missOf(error: string, retryAt: Date | null): Miss {
  return retryAt === null ? { error } : { error, retry_at: retryAt.toISOString() };
}

/**
 * Takes the addresses of a listing's pictures that may be asked again by now: no other payload gets them before
 * `RETRY_AFTER_MS` are over, whatever becomes of them here. Until that is recorded (see `replaceImages`) they are
 * this payload's: an attempt after a kill, a stop or a full disk gets them too. A payload that is superseded
 * meanwhile leaves its id there, which is of use to nobody, until the next payload's pictures replace the rows.
 * @returns None where the claim is lost, or the listing was made from a newer payload meanwhile.
 */
export async function takeDue(
  db: Kysely<Tables>,
  listingId: number,
  fence: Fence,
): Promise<Set<string>> {
  const { rows } = await sql<{ url: string }>`
    with claim as materialized (${heldListing(fence)})
    update listing_images set turn_raw_id = ${fence.rawId},
      retry_at = now() + ${RETRY_AFTER_MS} * interval '1 millisecond'
    from claim
    where claim.is_current and listing_id = ${listingId}
      and (retry_at <= now() or turn_raw_id = ${fence.rawId})
    returning url`.execute(db);
  return new Set(rows.map(({ url }) => url));
}

/**
 * Replaces the pictures of a listing, all at once. What became of pictures that came along with the
 * payload is kept with its record too: the listing's may be others by the time it is asked for.
 * @throws LeaseLostError where the claim is no longer held, SupersededError where the listing was made
 *   from a newer payload meanwhile; then nothing changed.
 */
export async function replaceImages(
  db: Kysely<Tables>,
  change: {
    listingId: number;
    outcomes: readonly ImageOutcome[];
    stored: readonly StoredImage[];
    fence: Fence;
    /** Whether the pictures came along with the payload. */
    cameAlong?: boolean;
  },
): Promise<void> {
  const { listingId, outcomes, stored, fence, cameAlong = false } = change;
  await db.transaction().execute(async (trx) => {
    const [claim] = (await heldListing(fence).execute(trx)).rows;
    if (claim === undefined) throw new LeaseLostError(fence);
    if (!claim.is_current) throw new SupersededError(fence);
    // Those that are there are not changed, but locked until the listing shows them: a clean-up passes them.
    await sql`insert into images (sha256, media_type, width, height, bytes, fingerprint)
      select distinct on (sha256) * from jsonb_to_recordset(${JSON.stringify(stored)}::jsonb)
        as image (sha256 text, media_type text, width integer, height integer, bytes bigint,
          fingerprint bigint)
      order by sha256
      on conflict (sha256) do update set media_type = excluded.media_type where false`.execute(trx);
    await sql`delete from listing_images where listing_id = ${listingId}`.execute(trx);
    await sql`insert into listing_images (listing_id, position, url, sha256, error, retry_at)
      select ${listingId}::bigint, image.* from jsonb_to_recordset(${JSON.stringify(outcomes)}::jsonb)
        as image (position integer, url text, sha256 text, error text, retry_at timestamptz)`.execute(
      trx,
    );
    if (cameAlong) {
      const uploads = JSON.stringify(
        outcomes.map(({ position: _position, url: _url, ...upload }) => upload),
      );
      await trx.updateTable('raw_data').set({ uploads }).where('id', '=', fence.rawId).execute();
    }
  });
}
