/** A wrong use of the command. The message is one line: what is wrong and what to do. */
export class UsageError extends Error {
  override name = 'UsageError';
}
