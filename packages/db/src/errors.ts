export type DatabaseErrorCode =
  | 'DATABASE_UNREACHABLE'
  | 'DATABASE_UNSUITABLE'
  | 'FOLDER_LOCKED'
  | 'FOLDER_UNUSABLE'
  | 'MIGRATION_FAILED';

/**
 * A failure to open or prepare the database. Its message is one line for the person who starts the
 * platform: what is wrong, and what to do. It never holds the database's password.
 */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
  readonly code: DatabaseErrorCode;

  constructor(code: DatabaseErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
