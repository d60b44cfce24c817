/** A calendar day in ISO 8601, such as 2026-11-20. Days can be compared as strings. */
export type Day = string & { readonly isDay: true };

const DAY_MS = 86_400_000;
// Date or timestamp (RFC 3339 §5.6). The seconds and the time zone are optional, and a space may replace the T.
const TIMESTAMP_PATTERN =
  /^(\d{4}-\d{2}-\d{2})(?:[T ]([01]\d|2[0-3]):[0-5]\d(:([0-5]\d|60)(\.\d+)?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?)?$/i;

/** Parses a date, or the date of a timestamp. Returns null for other text, 2026-02-30, and years before 100. */
export function parseDay(text: string): Day | null {
  const [, date] = TIMESTAMP_PATTERN.exec(text) ?? [];
  // `Date` accepts February 30 and turns it into a day in March.
  if (date === undefined || Number.isNaN(Date.parse(date)) || date < '0100') return null;
  return toDay(new Date(date)) === date ? (date as Day) : null;
}

/** Returns the UTC day of a date. */
export function toDay(date: Date): Day {
  return date.toISOString().slice(0, 10) as Day;
}

/** Returns the day that is `days` after a day, or before it if the number is negative. */
export function addDays(day: Day, days: number): Day {
  return toDay(new Date(Date.parse(day) + days * DAY_MS));
}

/** Returns the number of days from the first day to the second. */
export function countDaysBetween(startDay: Day, endDay: Day): number {
  return Math.round((Date.parse(endDay) - Date.parse(startDay)) / DAY_MS);
}
