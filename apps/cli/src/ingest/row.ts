/** The position of a record in a file. */
export type RowPosition = {
  /** The line on which it begins, from 1. */
  line: number;
  /** The length of the text up to its end, in bytes of UTF-8. */
  end: number;
  /** Its number in an array, from 1. */
  index?: number;
};

/** A record: its fields by the names of the file. */
export type GoodRow = RowPosition & { fields: Record<string, unknown> };

/** Text that is not a record, and the reason. */
export type BadRow = RowPosition & { reason: string; found: string };

/** An entry of a file. */
export type Row = GoodRow | BadRow;

/** The rest of a bad row is dropped. */
const MAX_FOUND_LENGTH = 1000;

/** Creates a row that is not a record. */
export function createBadRow(
  { line, end, index }: RowPosition,
  reason: string,
  found: string,
): BadRow {
  return {
    line,
    end,
    ...(index !== undefined && { index }),
    reason,
    found: found.slice(0, MAX_FOUND_LENGTH).toWellFormed(),
  };
}

/** Tells whether a JSON value is an object. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
