import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseError } from './errors.ts';

/** A migration file. */
export type Migration = {
  name: string;
  sql: string;
  /** Of the file without variables, which are settings. */
  checksum: string;
  /** Whether it runs outside of a transaction, so that tables stay writable. */
  concurrently: boolean;
};

const FILE_NAME = /^\d{4}_[a-z0-9_]+(?<concurrently>\.concurrently)?\.sql$/;

/**
 * Reads the migrations of a folder in the order of their names, with values for their variables.
 * @throws DatabaseError MIGRATION_FAILED for another file name, or a variable without a value.
 */
export async function readMigrations(
  folder: string,
  variables: Readonly<Record<string, number>>,
): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).toSorted();
  return Promise.all(
    names.map(async (name) => {
      const match = FILE_NAME.exec(name);
      if (match === null) {
        throw new DatabaseError(
          'MIGRATION_FAILED',
          `${join(folder, name)} is not named like 0001_what_it_does.sql or 0001_what_it_does.concurrently.sql`,
        );
      }
      const text = await readFile(join(folder, name), 'utf8');
      const checksum = createHash('sha256').update(text).digest('hex');
      const concurrently = match.groups?.['concurrently'] !== undefined;
      return { name, checksum, concurrently, sql: fill(text, name, variables) };
    }),
  );
}

function fill(text: string, file: string, variables: Readonly<Record<string, number>>): string {
  return text.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const value = variables[name];
    if (value === undefined) {
      throw new DatabaseError('MIGRATION_FAILED', `${file} needs a value for {{${name}}}`);
    }
    return String(value);
  });
}

/** A statement that is sent alone, and the index that it builds, if any. */
export type Step = { statement: string; builds: string | undefined };

/** Statements that can be repeated after an interruption, and lock no readers or writers. */
const REPEATABLE =
  /^(?:create\s+(?:unique\s+)?index\s+concurrently\s+if\s+not\s+exists\s+(?<builds>[a-z_][a-z0-9_]*)\s|drop\s+index\s+concurrently\s+if\s+exists\s|analyze\s)/i;

/**
 * Splits a file that runs outside of a transaction into statements.
 * @throws Error for a statement that cannot be repeated after a kill, or locks a table.
 */
export function readSteps(sql: string): Step[] {
  return sql
    .replaceAll(/--.*$/gm, '')
    .split(';')
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
    .map((statement) => {
      const match = REPEATABLE.exec(`${statement} `);
      if (match === null) {
        throw new Error(
          `"${statement.slice(0, 60)}" is neither "create index concurrently if not exists", nor "drop index concurrently if exists", nor "analyze"`,
        );
      }
      return { statement, builds: match.groups?.['builds'] };
    });
}
