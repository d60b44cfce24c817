import { type RawBuilder, type SqlBool, sql } from 'kysely';
import type { Position } from './positions.ts';

/**
 * The parts of a statement that lists rows with the newest first, page by page.
 * @param columns What tells how new a row is: the first that is not null. Rows of an older system may
 * have none, and come last.
 */
export function newestFirst(...columns: readonly string[]): {
  time: RawBuilder<Date>;
  /** The time as it stands in a position. */
  microseconds: RawBuilder<number | null>;
  /** Whether a row comes after a position. */
  isAfter: (position: Position) => RawBuilder<SqlBool>;
} {
  const time = sql<Date>`coalesce(${sql.join(columns.map((name) => sql.ref(name)))}, '-infinity')`;
  return {
    time,
    microseconds: sql`(extract(epoch from nullif(${time}, '-infinity')) * 1000000)::bigint`,
    isAfter: ([microseconds, id]) => sql`(${time}, id) < (
      coalesce('epoch'::timestamptz + ${microseconds}::bigint * interval '1 microsecond', '-infinity'),
      ${id})`,
  };
}
