/** Where in a file something stands. */
export type Place = {
  /** The line on which it begins, counted from 1. */
  line: number;
  /** How many bytes the text has up to its end, as UTF-8. */
  end: number;
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
export function badRow(place: Place, reason: string, found: string): BadRow {
  return {
    line: place.line,
    end: place.end,
    reason,
    found: found.slice(0, LONGEST_FOUND).toWellFormed(),
  };
}
