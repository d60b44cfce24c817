type DatabaseErrorCode =
  | 'DATABASE_UNREACHABLE'
  | 'DATABASE_UNSUITABLE'
  | 'FOLDER_LOCKED'
  | 'FOLDER_UNUSABLE'
  | 'MIGRATION_FAILED';

/**
 * Failure to open, prepare or reach the database. The message names the problem, in most cases with a solution, and
 * never the password.
 */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
  readonly code: DatabaseErrorCode;

  constructor(code: DatabaseErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Creates the error for a server that cannot be reached or that closed the connection. */
export function createUnreachableError(cause: unknown): DatabaseError {
  return new DatabaseError(
    'DATABASE_UNREACHABLE',
    `The database does not respond (${describeReason(cause)}): check DATABASE_URL, and check that the server runs`,
    { cause },
  );
}

/** Returns whether an error means that the database is unreachable. HTTP servers respond with 503. Contract 2. */
export function isDatabaseOutage(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === 'DATABASE_UNREACHABLE';
}

/** Returns the message of a connection error. Messages of node-postgres do not contain the password. */
function describeReason(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0)
    return describeReason(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}

/** Classes of PostgreSQL error codes that concern the server instead of the query (PostgreSQL manual, Appendix A). */
const SERVER_ERROR_PATTERN = /^(08|53|57P)/;

/**
 * Converts an error to DATABASE_UNREACHABLE if the server was not reached, did not respond in time, closed the
 * connection, or lacks resources such as connections. Returns other errors unchanged. node-postgres reports connection
 * errors as plain `Error` objects.
 */
export function toOutageError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const code = 'code' in error ? String(error.code) : '';
  const isOutage =
    'severity' in error
      ? error.severity === 'FATAL' || SERVER_ERROR_PATTERN.test(code)
      : error.name === 'Error';
  return isOutage ? createUnreachableError(error) : error;
}

/** PostgreSQL's `serialization_failure` and `deadlock_detected`. */
const CONFLICT_CODES: ReadonlySet<unknown> = new Set(['40001', '40P01']);

const MAX_ATTEMPTS = 3;

/**
 * Runs a function that executes a statement or transaction, and retries it after a conflict with another transaction.
 * Makes at most three attempts.
 * @throws Other errors immediately, and the conflict of the last attempt.
 */
export async function retryConflicts<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      const isConflict =
        error instanceof Error && 'code' in error && CONFLICT_CODES.has(error.code);
      if (attempt === MAX_ATTEMPTS || !isConflict) throw error;
    }
  }
}
