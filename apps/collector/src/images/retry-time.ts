import type { ImageError } from './image-error.ts';

const HOUR_MS = 3_600_000;

/**
 * How long an address that could not be had for a moment is left alone by payloads that say nothing new: a
 * dead host costs a source that sends the same every hour its timeouts once a day. A little less than a
 * day, so that one that sends once a day asks each time.
 */
export const RETRY_AFTER_MS = 20 * HOUR_MS;

/**
 * The bounds of what a host may name in its place: an hour, of which a little less for the same reason, and a
 * month, after which whatever it meant is over.
 */
const SOONEST_MS = 50 * 60_000;
const LATEST_MS = 30 * 24 * HOUR_MS;

/** From when on an address may be asked again; null where that would be of no use. */
export function retryTime({ retryable, retryAt }: ImageError, now = Date.now()): Date | null {
  if (!retryable) return null;
  const wanted = retryAt === undefined ? RETRY_AFTER_MS : retryAt.getTime() - now;
  return new Date(now + Math.min(Math.max(wanted, SOONEST_MS), LATEST_MS));
}
