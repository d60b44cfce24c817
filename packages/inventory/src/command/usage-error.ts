/** A wrong use of the command. The message is one line: what is wrong and what to do. */
export class UsageError extends Error {
  override name = 'UsageError';
  /** The arguments of another call that says more, such as `validate --help`. */
  readonly see: string | undefined;

  constructor(message: string, { see, cause }: { see?: string | undefined; cause?: unknown } = {}) {
    super(message, cause === undefined ? {} : { cause });
    this.see = see;
  }
}
