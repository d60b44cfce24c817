import type { ImageEvent, ImageOutcome, Miss } from './outcome.ts';
import type { StoredImage } from './repository.ts';

/** Stored bytes, or the reason why a picture cannot be used. */
export type Result = { image: StoredImage; isReused?: boolean } | Miss;

/**
 * One of a listing's pictures.
 * @property url Where it was fetched from; null where it came along with the payload.
 * @property name What its sender calls it: its file name, or its address.
 */
export type ListingPicture = { url: string | null; name: string; result: Result };

/**
 * What became of a listing's pictures, in their order.
 * @param before Hashes of those that were stored before.
 */
export function toOutcomes(
  pictures: readonly ListingPicture[],
  before: ReadonlySet<string>,
): ImageOutcome[] {
  const known = new Set(before);
  return pictures.map(({ url, result }, position) => {
    if ('error' in result) return { position, url, ...result };
    const { sha256, width, height } = result.image;
    const duplicate = known.has(sha256);
    known.add(sha256);
    return { position, url, sha256, width, height, duplicate };
  });
}

/** The same for metrics, of one picture. */
export function eventOf(outcome: ImageOutcome, picture: ListingPicture | undefined): ImageEvent {
  if ('error' in outcome) return 'failed';
  if (picture !== undefined && 'image' in picture.result && picture.result.isReused === true) {
    return 'reused';
  }
  return outcome.duplicate ? 'duplicate' : 'stored';
}
