import type { ModelErrorCode } from '@oselya/model';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { DescribeError, Tables } from '../tables.ts';
import { type Fence, heldClaim, LeaseLostError } from '../queue/index.ts';
import { type Asked, UNREADABLE } from './refusal.ts';

/** A picture that has no description yet, and its size. */
export type Undescribed = { sha256: string; width: number; height: number };

/** Refusals that are of the server's settings, and pass with them. */
const OF_SETTINGS = [
  'MODEL_RATE_LIMITED',
  'MODEL_UNSUPPORTED',
] as const satisfies readonly ModelErrorCode[];

/** Refusals that say nothing of the image once the settings are others, or the store has it again. */
const PASSING: readonly string[] = [...OF_SETTINGS, UNREADABLE];

const refusedWith = (key: keyof DescribeError) => sql<string | null>`describe_error ->> ${key}`;

/**
 * Which of these hashes have no description yet; none that was refused when it was asked for with the same. One that
 * could not be read may be there again, which costs the model nothing to find out.
 */
export function findUndescribed(
  db: Kysely<Tables>,
  hashes: readonly string[],
  asked: Asked,
): Promise<Undescribed[]> {
  if (hashes.length === 0) return Promise.resolve([]);
  return db
    .selectFrom('images')
    .select(['sha256', 'width', 'height'])
    .where('sha256', 'in', hashes)
    .where('described_by', 'is', null)
    .where((eb) =>
      eb.or([
        eb(refusedWith('requested_model'), 'is distinct from', asked.requested_model),
        eb(refusedWith('prompt_version'), 'is distinct from', asked.prompt_version),
        eb(refusedWith('code'), '=', UNREADABLE),
      ]),
    )
    .execute();
}

/** All pictures of a listing that have no description, refused ones too, each with its first address. */
export function findUndescribedOf(
  db: Kysely<Tables>,
  listingId: number,
): Promise<(Undescribed & { url: string | null })[]> {
  return selectPictures(db, listingId).where('described_by', 'is', null).execute();
}

function selectPictures(db: Kysely<Tables>, listingId: number) {
  return db
    .selectFrom('listing_images')
    .innerJoin('images', 'images.sha256', 'listing_images.sha256')
    .distinctOn('images.sha256')
    .select(['images.sha256', 'width', 'height', 'url'])
    .where('listing_id', '=', listingId)
    .orderBy('images.sha256')
    .orderBy('position');
}

/**
 * Whether a row of `images` was described with another prompt or by another model than it would be now, or not at
 * all; one that the model would not describe so is not asked for again, but where that may pass.
 */
export function isOutdated(asked: Asked): RawBuilder<boolean> {
  const { requested_model: model, prompt_version: version } = asked;
  return sql<boolean>`(
    (images.prompt_version is distinct from ${version}
      or coalesce(images.requested_model, images.described_by) is distinct from ${model})
    and not coalesce(images.describe_error @> ${JSON.stringify({ requested_model: model, prompt_version: version })}::jsonb
      and images.describe_error ->> 'code' <> all (${PASSING}::text[]), false))`;
}

/** The pictures of a listing that are outdated, each with its first address. */
export function findOutdatedOf(
  db: Kysely<Tables>,
  listingId: number,
  asked: Asked,
): Promise<(Undescribed & { url: string | null })[]> {
  return selectPictures(db, listingId).where(isOutdated(asked)).execute();
}

/**
 * Writes what the model says of a picture, in place of what was said of it or why nothing was, by anybody before.
 * @throws LeaseLostError where the claim is no longer held; then nothing changed.
 */
export async function saveDescription(
  db: Kysely<Tables>,
  fence: Fence,
  image: {
    sha256: string;
    description: string;
    room_type: string;
    quality: string;
    described_by: string;
    prompt_version: string;
    requested_model: string;
  },
): Promise<void> {
  const { rows } = await sql<{ held: boolean }>`
    with claim as materialized (${heldClaim(fence)}),
    written as (
      update images set description = ${image.description}, room_type = ${image.room_type},
        quality = ${image.quality}, described_by = ${image.described_by},
        prompt_version = ${image.prompt_version}, requested_model = ${image.requested_model},
        describe_error = null
      from claim where sha256 = ${image.sha256})
    select exists (select from claim) as held`.execute(db);
  if (rows[0]?.held !== true) throw new LeaseLostError(fence);
}

/**
 * Records that the model would not describe a picture, unless it has described it for another job meanwhile.
 * What another prompt or model said of it stays.
 * @throws LeaseLostError where the claim is no longer held; then nothing changed.
 */
export async function saveRefusal(
  db: Kysely<Tables>,
  fence: Fence,
  { sha256, error }: { sha256: string; error: DescribeError },
): Promise<void> {
  const { rows } = await sql<{ held: boolean }>`
    with claim as materialized (${heldClaim(fence)}),
    written as (
      update images set describe_error = ${JSON.stringify(error)}::jsonb
      from claim where sha256 = ${sha256} and ${isOutdated(error)})
    select exists (select from claim) as held`.execute(db);
  if (rows[0]?.held !== true) throw new LeaseLostError(fence);
}
