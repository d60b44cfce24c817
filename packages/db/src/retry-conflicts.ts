/** PostgreSQL's serialization_failure and deadlock_detected: Appendix A, Error Codes. */
const CONFLICTS: ReadonlySet<unknown> = new Set(['40001', '40P01']);

const ATTEMPTS = 3;

/**
 * Runs a statement, or a transaction, and runs it again where the database ended it for the sake of
 * another: at most three times in all. Nothing of what it ended has been written, and the other has gone
 * on by then, so there is nothing to wait for.
 * @throws What the work throws otherwise, or the last time.
 */
export async function retryConflicts<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (attempt === ATTEMPTS || !isConflict(error)) throw error;
    }
  }
}

function isConflict(error: unknown): boolean {
  return error instanceof Error && 'code' in error && CONFLICTS.has(error.code);
}
