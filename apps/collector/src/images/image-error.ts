const HOUR_MS = 3_600_000;

/**
 * How long an address that failed is left alone by payloads that say nothing new: a little less than a day, so that a
 * source that sends daily asks each time.
 */
const RETRY_AFTER_MS = 20 * HOUR_MS;

/** The bounds of what a host may name instead: a little less than an hour, and a month. */
const SOONEST_MS = 50 * 60_000;
const LATEST_MS = 30 * 24 * HOUR_MS;

/**
 * Says why an image cannot be used: its address, its host or its bytes are to blame. The message is recorded with the
 * listing and says nothing of the inside.
 */
export class ImageError extends Error {
  override readonly name = 'ImageError';
  /** Whether the same download may succeed later. */
  readonly retryable: boolean;
  /** When its host wants to be asked again, where it says so. */
  readonly retryAt: Date | undefined;

  constructor(
    message: string,
    options: { retryable?: boolean; retryAt?: Date | undefined; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.retryable = options.retryable ?? false;
    this.retryAt = options.retryAt;
  }
}

/** Returns from when on an address may be asked again; null where that is of no use. */
export function retryTime({ retryable, retryAt }: ImageError, now = Date.now()): Date | null {
  if (!retryable) return null;
  const wanted = retryAt === undefined ? RETRY_AFTER_MS : retryAt.getTime() - now;
  return new Date(now + Math.min(Math.max(wanted, SOONEST_MS), LATEST_MS));
}
