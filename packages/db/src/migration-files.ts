import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseError } from './errors.ts';

/** A file of a folder of migrations. */
export type Migration = {
  name: string;
  sql: string;
  /** Of the file, not of its variables: those are settings. */
  checksum: string;
  /** Whether it is applied outside of a transaction, so that tables stay open while it works. */
  concurrently: boolean;
};

const FILE_NAME = /^\d{4}_[a-z0-9_]+(?<concurrently>\.concurrently)?\.sql$/;

/**
 * Reads the migrations of a folder, in the order of their names, with their variables filled in.
 * @throws DatabaseError MIGRATION_FAILED for a file that is named otherwise, or a variable without a value.
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
