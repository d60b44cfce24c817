/** Why nothing could be measured, in one line for the person at the terminal. */
export class BenchError extends Error {
  override readonly name = 'BenchError';
}
