import { CompiledQuery, type Kysely } from 'kysely';

const names = new Map<string, string>();

/**
 * A statement that runs so often that parsing and planning it each time would cost more than running
 * it: each connection does that once. Everything else is better off as an ordinary query.
 * @param name Of this text alone, within one process.
 * @param text With parameters `$1`, `$2`, …
 * @returns Runs it on a database or in a transaction, and gives its rows.
 */
export function prepare<Row>(
  name: string,
  text: string,
): <Schema>(db: Kysely<Schema>, parameters: readonly unknown[]) => Promise<Row[]> {
  names.set(text, name);
  return async (db, parameters) => {
    const { rows } = await db.executeQuery(CompiledQuery.raw(text, [...parameters]));
    // What the text selects is known to whoever wrote it.
    return rows as Row[];
  };
}

/** The name under which connections keep a text; nothing for an ordinary query. */
export function preparedName(text: string): string | undefined {
  return names.get(text);
}
