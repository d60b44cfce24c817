import { createHash } from 'node:crypto';
import { CompiledQuery, type Kysely, type RawBuilder, sql } from 'kysely';

/** Begins each prepared statement. */
const MARK = '/* prepared */';

/** Prepared statements at most; a text with literals would be another one for each value. */
const MAX_NAMES = 100;

const names = new Map<string, string>();

/**
 * Prepares the statement of Kysely's `sql` that begins with it: each connection parses and plans it once, for all values.
 * That pays where a statement runs so often that planning costs as much as running. Its text must not depend on values.
 * docs/adr/0026-prepared-statements.md
 */
export const prepared: RawBuilder<never> = sql.raw(`${MARK} `);

/**
 * Hides a limit or switch of a prepared statement from the planner. PostgreSQL keeps the generic plan only where it looks
 * no more expensive than one for the values at hand.
 */
export function unplanned<Value extends number | boolean>(value: Value): RawBuilder<Value> {
  const type = sql.raw(typeof value === 'boolean' ? 'boolean' : 'integer');
  return sql`(select ${value}::${type})`;
}

/**
 * Prepares a statement whose text is not composed.
 * @param text With parameters `$1`, `$2`, …
 * @returns A function that runs it on a database or transaction, and returns its rows.
 */
export function prepare<Row>(
  text: string,
): <Schema>(db: Kysely<Schema>, parameters: readonly unknown[]) => Promise<Row[]> {
  const marked = `${MARK} ${text}`;
  return async (db, parameters) => {
    const { rows } = await db.executeQuery(CompiledQuery.raw(marked, [...parameters]));
    // The author of the text knows its columns.
    return rows as Row[];
  };
}

/** Returns whether a statement is prepared. */
export function isPrepared(text: string): boolean {
  return text.startsWith(MARK);
}

/** Returns the name under which connections keep a statement; undefined for others. */
export function preparedName(text: string): string | undefined {
  if (!isPrepared(text)) return undefined;
  const known = names.get(text);
  if (known !== undefined || names.size === MAX_NAMES) return known;
  const name = createHash('sha256').update(text).digest('hex').slice(0, 32);
  names.set(text, name);
  return name;
}

/**
 * Formats a vector for pgvector: `[0.1,0.2]`.
 * @throws RangeError for a number that is not finite, with its index, which pgvector's error lacks.
 */
export function toVector(numbers: readonly number[]): string {
  const bad = numbers.findIndex((number) => !Number.isFinite(number));
  if (bad !== -1) throw new RangeError(`Element ${bad} of the vector is not a finite number`);
  return `[${numbers.join(',')}]`;
}
