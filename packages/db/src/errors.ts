/** Codes of failures of the database or its folder. Match on these, never on messages. */
export type DatabaseErrorCode =
  | 'DATABASE_UNREACHABLE'
  | 'DATABASE_UNSUITABLE'
  | 'FOLDER_LOCKED'
  | 'FOLDER_UNUSABLE'
  | 'MIGRATION_FAILED';

/**
 * A failure to open, prepare or reach the database. Its message is one line for the operator: what is wrong and what to
 * do, without the database's password.
 */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
  readonly code: DatabaseErrorCode;

  constructor(code: DatabaseErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Returns the error of a connection or query whose server was not reached or hung up. */
export function databaseUnreachable(cause: unknown): DatabaseError {
  return new DatabaseError(
    'DATABASE_UNREACHABLE',
    `The database does not answer (${reason(cause)}): check DATABASE_URL and that the server runs`,
    { cause },
  );
}

/** Returns whether an error means that the database was unreachable. A server answers it with 503. Contract 2. */
export function isDatabaseOutage(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === 'DATABASE_UNREACHABLE';
}

/** Returns the short reason of a connection error. Messages of node-postgres hold no password. */
function reason(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reason(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}

/** PostgreSQL's classes of errors about itself rather than the query: Appendix A, Error Codes. */
const SERVER_IN_TROUBLE = /^(08|53|57P)/;

/**
 * Converts the error of a server that was not reached, hung up or accepts no more connections; returns others as they
 * are. node-postgres reports the first two as plain errors, and values that it cannot convert as other classes.
 */
export function asOutage(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const code = 'code' in error ? String(error.code) : '';
  const isOutage =
    'severity' in error
      ? error.severity === 'FATAL' || SERVER_IN_TROUBLE.test(code)
      : error.name === 'Error';
  return isOutage ? databaseUnreachable(error) : error;
}

/** PostgreSQL's serialization_failure and deadlock_detected: Appendix A, Error Codes. */
const CONFLICTS: ReadonlySet<unknown> = new Set(['40001', '40P01']);

const ATTEMPTS = 3;

/**
 * Runs a statement or transaction, and repeats it at once where the database rolled it back in favor of another: three
 * times in all.
 * @throws Other errors of the work, and the last one.
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
