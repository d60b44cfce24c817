import { createHash } from 'node:crypto';
import { CompiledQuery, type Kysely, type RawBuilder, sql } from 'kysely';

/*
 * A statement that runs so often that parsing and planning it each time would cost as much as running it is
 * prepared: each connection does that once, and keeps a plan for all values. Everything else is better off as an
 * ordinary query, which is planned for its values.
 */

/** At the beginning of a statement that is prepared. */
const MARK = '/* prepared */';

/** Statements that are prepared; a text that holds values would make another of each. */
const MOST_NAMES = 100;

const names = new Map<string, string>();

/**
 * Put at the beginning of a statement of Kysely's `sql`, has it prepared. Its text must be the same whatever the
 * values are, and so few texts that each is worth keeping: parameters, no literals.
 */
export const prepared: RawBuilder<never> = sql.raw(`${MARK} `);

/**
 * A value that the planner does not look at, for a limit or a switch in a prepared statement. PostgreSQL keeps the plan
 * for all values only where it expects no more of it than of one that is made for the values at hand, and of what it
 * does not know it expects much more.
 */
export function unplanned<Value extends number | boolean>(value: Value): RawBuilder<Value> {
  const type = sql.raw(typeof value === 'boolean' ? 'boolean' : 'integer');
  return sql`(select ${value}::${type})`;
}

/**
 * The same for a statement that is not composed: its text is handed to the database as it is.
 * @param text With parameters `$1`, `$2`, …
 * @returns Runs it on a database or in a transaction, and gives its rows.
 */
export function prepare<Row>(
  text: string,
): <Schema>(db: Kysely<Schema>, parameters: readonly unknown[]) => Promise<Row[]> {
  const marked = `${MARK} ${text}`;
  return async (db, parameters) => {
    const { rows } = await db.executeQuery(CompiledQuery.raw(marked, [...parameters]));
    // What the text selects is known to whoever wrote it.
    return rows as Row[];
  };
}

/** Whether a statement is prepared. */
export function isPrepared(text: string): boolean {
  return text.startsWith(MARK);
}

/** The name under which connections keep a text; nothing for an ordinary query. */
export function preparedName(text: string): string | undefined {
  if (!isPrepared(text)) return undefined;
  const known = names.get(text);
  if (known !== undefined || names.size === MOST_NAMES) return known;
  const name = createHash('sha256').update(text).digest('hex').slice(0, 32);
  names.set(text, name);
  return name;
}
