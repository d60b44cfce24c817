/** Position of a record in a file. */
export type RowPosition = {
  /** First line of the record. 1-based. */
  line: number;
  /** Length of the text up to the end of the record, in UTF-8 bytes. */
  end: number;
  /** 1-based index in an array. */
  index?: number;
};

/** A record with its fields by column name. */
export type GoodRow = RowPosition & { fields: Record<string, unknown> };

/** Text that is not a valid record, with the reason. */
export type BadRow = RowPosition & { reason: string; found: string };

/** A valid or invalid record of a file. */
export type Row = GoodRow | BadRow;

/** Maximum length of the kept text of a bad row. */
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
