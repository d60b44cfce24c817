/** Error with a one-line message for the user. */
export class BenchError extends Error {
  override readonly name = 'BenchError';
}
