import { createCursorCodec } from '@oselya/kit';
import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { type Static, Type } from 'typebox';
import { nullable, storableText } from './schema.ts';

const positionSchema = Type.Tuple([
  nullable(Type.Integer({ minimum: -Number.MAX_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER })),
  storableText({ maxLength: 1024 }),
]);

/** Time and ID of the last row of a page. The time is in microseconds since 1970, or null for a row without one. */
export type Position = Static<typeof positionSchema>;

/** Codec of cursors that contain a position. */
export const positionCursors = createCursorCodec(positionSchema);

/**
 * Builds the SQL expressions of a statement that lists rows page by page, newest first.
 * @param columns The first column that is not null is the time of a row. Rows without a time come last.
 */
export function buildTimeOrder(...columns: readonly string[]): {
  time: RawBuilder<Date>;
  microseconds: RawBuilder<number | null>;
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
