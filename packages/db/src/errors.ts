/** What is wrong with the database or its folder: match on this, never on a message. */
export type DatabaseErrorCode =
  | 'DATABASE_UNREACHABLE'
  | 'DATABASE_UNSUITABLE'
  | 'FOLDER_LOCKED'
  | 'FOLDER_UNUSABLE'
  | 'MIGRATION_FAILED';

/**
 * A failure to open, prepare or reach the database. Its message is one line for the person who runs
 * the platform: what is wrong, and what to do. It never holds the database's password.
 */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
  readonly code: DatabaseErrorCode;

  constructor(code: DatabaseErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** What a connection or a query fails with when the server was not reached or hung up. */
export function databaseUnreachable(cause: unknown): DatabaseError {
  return new DatabaseError(
    'DATABASE_UNREACHABLE',
    `The database does not answer (${reason(cause)}): check DATABASE_URL and that the server runs`,
    { cause },
  );
}

/**
 * Whether an error says that the database was out of reach, now or for as long as a query waited. The
 * same may well succeed later, so a server answers it with 503. Contract 2.
 */
export function isDatabaseOutage(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === 'DATABASE_UNREACHABLE';
}

/** The short reason of a connection error; node-postgres's own messages hold no password. */
function reason(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reason(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}
