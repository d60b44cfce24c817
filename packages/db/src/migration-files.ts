import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseError } from './errors.ts';

export type Migration = {
  name: string;
  sql: string;
  /** Checksum of the file before its variables are replaced. */
  checksum: string;
  /** Whether the file runs outside a transaction, which keeps tables writable. */
  isConcurrent: boolean;
};

const FILE_NAME_PATTERN = /^\d{4}_[a-z0-9_]+(?:\.concurrently)?\.sql$/;

/**
 * Reads the migrations of a folder in the order of their names, and replaces their variables.
 * @throws DatabaseError MIGRATION_FAILED for an invalid file name, or a variable without a value.
 */
export async function readMigrations(
  folder: string,
  variables: Readonly<Record<string, number>>,
): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).toSorted();
  return Promise.all(
    names.map(async (name) => {
      if (!FILE_NAME_PATTERN.test(name)) {
        throw new DatabaseError(
          'MIGRATION_FAILED',
          `${join(folder, name)} is not named like 0001_what_it_does.sql or 0001_what_it_does.concurrently.sql`,
        );
      }
      const text = await readFile(join(folder, name), 'utf8');
      const sql = text.replaceAll(/\{\{(\w+)\}\}/g, (_, variable: string) => {
        const value = variables[variable];
        if (value === undefined) {
          throw new DatabaseError('MIGRATION_FAILED', `${name} needs a value for {{${variable}}}`);
        }
        return String(value);
      });
      const checksum = createHash('sha256').update(text).digest('hex');
      return { name, sql, checksum, isConcurrent: name.includes('.concurrently.') };
    }),
  );
}

/** Statement that runs outside a transaction, and the name of the index that it builds, if any. */
type MigrationStatement = { statement: string; indexName: string | undefined };

/**
 * Pattern of statements that can be retried after an interruption, and that block neither readers nor writers. A called
 * procedure must commit in batches.
 */
const REPEATABLE_STATEMENT_PATTERN =
  /^(?:create\s+(?:unique\s+)?index\s+concurrently\s+if\s+not\s+exists\s+(?<builds>[a-z_][a-z0-9_]*)\s|drop\s+index\s+concurrently\s+if\s+exists\s|analyze\s|call\s)/i;

/**
 * Splits a file that runs outside a transaction into statements.
 * @throws Error for a statement that cannot be retried after an interruption, or that locks a table.
 */
export function splitStatements(sql: string): MigrationStatement[] {
  return sql
    .replaceAll(/--.*$/gm, '')
    .split(';')
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
    .map((statement) => {
      const match = REPEATABLE_STATEMENT_PATTERN.exec(`${statement} `);
      if (match === null) {
        throw new Error(
          `"${statement.slice(0, 60)}" is neither "create index concurrently if not exists", nor "drop index concurrently if exists", nor "analyze" or "call"`,
        );
      }
      return { statement, indexName: match.groups?.['builds'] };
    });
}
