import type { ImageEvent, ImageOutcome, Miss } from './outcome.ts';
import type { StoredImage } from './repository.ts';

/** Stored bytes, or the reason why a picture cannot be used. */
export type Result = { image: StoredImage; isReused?: boolean } | Miss;

/** One place in a listing's row of pictures. */
export type Place = { url: string | null; name: string; result: Result };

/**
 * What became of a listing's pictures, in their order.
 * @param before Hashes of those that were stored before.
 */
export function toOutcomes(places: readonly Place[], before: ReadonlySet<string>): ImageOutcome[] {
  const known = new Set(before);
  return places.map(({ url, result }, position) => {
    if ('error' in result) return { position, url, ...result };
    const { sha256, width, height } = result.image;
    const duplicate = known.has(sha256);
    known.add(sha256);
    return { position, url, sha256, width, height, duplicate };
  });
}

/** The same for metrics, of one picture. */
export function eventOf(outcome: ImageOutcome, place: Place | undefined): ImageEvent {
  if ('error' in outcome) return 'failed';
  if (place !== undefined && 'image' in place.result && place.result.isReused === true) {
    return 'reused';
  }
  return outcome.duplicate ? 'duplicate' : 'stored';
}
