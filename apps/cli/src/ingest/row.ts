/** Where in a file something stands. */
export type Place = {
  /** The line on which it begins, counted from 1. */
  line: number;
  /** How many bytes the text has up to its end, as UTF-8; of an item of an array, up to the piece that it ends in. */
  end: number;
  /** Of an item of an array: which one it is, counted from 1, since a line may have many. */
  index?: number;
};

/** A record of a file: its fields by their names, as the file has them. */
export type GoodRow = Place & { fields: Record<string, unknown> };

/** What stands in a file where a record should be, and why it is none. */
export type BadRow = Place & { reason: string; found: string };

/** What stands in one place of a file. */
export type Row = GoodRow | BadRow;

/** So much of what is no record is kept. */
const LONGEST_FOUND = 1000;

/** A row that is no record. */
export function badRow({ line, end, index }: Place, reason: string, found: string): BadRow {
  return {
    line,
    end,
    ...(index !== undefined && { index }),
    reason,
    found: found.slice(0, LONGEST_FOUND).toWellFormed(),
  };
}

/** Whether a JSON value can be a record. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Where a row stands, for messages and for telling it from equal ones: `line 3`, or `record 3 (line 1)`. */
export function placeOf({ line, index }: Place): string {
  return index === undefined ? `line ${line}` : `record ${index} (line ${line})`;
}
