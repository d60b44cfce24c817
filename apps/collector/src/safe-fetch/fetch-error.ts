/**
 * Why an address cannot be fetched. The message is for whoever looks after what named the address: it says
 * nothing of the inside.
 */
export class FetchError extends Error {
  override readonly name = 'FetchError';
  /** Whether the same may succeed a moment later. */
  readonly retryable: boolean;

  constructor(message: string, options: { retryable?: boolean; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.retryable = options.retryable ?? false;
  }
}
