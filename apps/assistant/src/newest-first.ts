import { cursors } from '@oselya/kit';
import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { type Static, Type } from 'typebox';
import { nullable, storableText } from './schema.ts';

// No id is nearly as long: a cursor's text has 1,024 characters at most.
const position = Type.Tuple([
  nullable(Type.Integer({ minimum: -Number.MAX_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER })),
  storableText({ maxLength: 1024 }),
]);

/**
 * Where a page ended: microseconds since 1970, which a JavaScript Date would cut off, or null where a
 * row has no time; and the row's id.
 */
export type Position = Static<typeof position>;

/** Positions as callers carry them. */
export const positions = cursors(position);

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
