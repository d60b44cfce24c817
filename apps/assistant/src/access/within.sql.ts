import { type RawBuilder, type SqlBool, sql } from 'kysely';
import type { Reach } from './reach.ts';

/**
 * Whether a row is within reach, as a condition of a statement: null, which selects nothing, for a row
 * without an owner and a user who is no admin.
 * @param owner The column that names whose the row is.
 */
export function isWithin(reach: Reach, owner: string): RawBuilder<SqlBool> {
  if (reach === 'everything') return sql<SqlBool>`true`;
  if (reach === 'every-user') return sql<SqlBool>`${sql.ref(owner)} is not null`;
  return sql<SqlBool>`${sql.ref(owner)} = ${reach.userId}`;
}
