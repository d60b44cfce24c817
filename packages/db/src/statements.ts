import { createHash } from 'node:crypto';
import { CompiledQuery, type Kysely, type RawBuilder, sql } from 'kysely';

const PREPARED_PREFIX = '/* prepared */';

/** Maximum number of prepared statements, in case a statement contains literals instead of parameters. */
const MAX_PREPARED_NAMES = 100;

const preparedNames = new Map<string, string>();

/**
 * Marker of prepared statements, for the beginning of Kysely's `sql`. Each connection parses such a statement only
 * once, and soon reuses its plan. Use it for frequent statements, whose text must not depend on values.
 * @see docs/adr/0026-prepared-statements.md
 */
export const prepared: RawBuilder<never> = sql.raw(`${PREPARED_PREFIX} `);

/**
 * Hides a value of a prepared statement from the planner. Otherwise a plan for the specific value may look cheaper, and
 * PostgreSQL would not keep the generic plan.
 */
export function hideFromPlanner<Value extends number | string>(value: Value): RawBuilder<Value> {
  const type = sql.raw(typeof value === 'string' ? 'text' : 'integer');
  return sql`(select ${value}::${type})`;
}

/**
 * Creates a prepared statement from constant SQL.
 * @param text SQL with parameters `$1`, `$2`, …
 * @returns A function that runs the statement on a database or transaction, and returns its rows.
 */
export function createPreparedStatement<Row>(
  text: string,
): <Schema>(db: Kysely<Schema>, parameters: readonly unknown[]) => Promise<Row[]> {
  const preparedText = `${PREPARED_PREFIX} ${text}`;
  return async (db, parameters) => {
    const { rows } = await db.executeQuery(CompiledQuery.raw(preparedText, [...parameters]));
    // The caller guarantees the type of the rows.
    return rows as Row[];
  };
}

/** Returns the name of a prepared statement. Undefined for other statements, and above the maximum number of names. */
export function getPreparedName(text: string): string | undefined {
  if (!text.startsWith(PREPARED_PREFIX)) return undefined;
  const existingName = preparedNames.get(text);
  if (existingName !== undefined || preparedNames.size === MAX_PREPARED_NAMES) return existingName;
  const name = createHash('sha256').update(text).digest('hex').slice(0, 32);
  preparedNames.set(text, name);
  return name;
}

/**
 * Formats a vector for pgvector: `[0.1,0.2]`.
 * @throws RangeError with the index of a number that is not finite. The error of pgvector lacks the index.
 */
export function formatVector(numbers: readonly number[]): string {
  const invalidIndex = numbers.findIndex((number) => !Number.isFinite(number));
  if (invalidIndex !== -1)
    throw new RangeError(`Element ${invalidIndex} of the vector is not a finite number`);
  return `[${numbers.join(',')}]`;
}
