/**
 * Why a picture cannot be used: its address, its host or its bytes are to blame. The message is
 * recorded with the listing, for whoever looks after the source; it says nothing of the inside.
 */
export class ImageError extends Error {
  override readonly name = 'ImageError';
  /** Whether the same download may succeed a moment later. */
  readonly retryable: boolean;
  /** Whether the host did not answer in time. */
  readonly isTimeout: boolean;
  /** When its host wants to be asked again, where it says so. */
  readonly retryAt: Date | undefined;

  constructor(
    message: string,
    options: {
      retryable?: boolean;
      isTimeout?: boolean;
      retryAt?: Date | undefined;
      cause?: unknown;
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.retryable = options.retryable ?? false;
    this.isTimeout = options.isTimeout ?? false;
    this.retryAt = options.retryAt;
  }
}
