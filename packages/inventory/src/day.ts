/** A calendar day as ISO 8601 writes it, such as 2026-11-20. Days compare as their strings do. */
export type Day = string & { readonly isDay: true };

/** The longest moment of use; a longer text is read each time. */
const MAX_CHARACTERS = 40;
const DAY_MS = 86_400_000;
const DAYS_OF_MONTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

const DAY = /^(\d{4})-(\d{2})-(\d{2})/;
// A space may stand for the T (RFC 3339 §5.6).
const TIME =
  /^[T ]([01]\d|2[0-3]):[0-5]\d(:([0-5]\d|60)(\.\d+)?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?$/i;

/** Days that were read: inventories have few of them, each many times. */
const known = new Map<string, Day | null>();
const MAX_KNOWN = 1000;

/**
 * Reads a day, or a moment of which only the day counts (RFC 3339 §5.6, time zone optional); null when it
 * is none, such as 2026-02-30.
 */
export function readDay(text: string): Day | null {
  let day = known.get(text);
  if (day === undefined) {
    day = parseDay(text);
    if (known.size === MAX_KNOWN) known.clear();
    if (text.length <= MAX_CHARACTERS) known.set(text, day);
  }
  return day;
}

function parseDay(text: string): Day | null {
  const [date = '', year, month, dayOfMonth] = DAY.exec(text) ?? [];
  const rest = text.slice(date.length);
  if (date === '' || (rest !== '' && !TIME.test(rest))) return null;
  // There was no network before, and `Date` takes such years for others.
  const isDay =
    Number(year) >= 100 &&
    Number(dayOfMonth) >= 1 &&
    Number(dayOfMonth) <= lastOf(Number(year), Number(month));
  return isDay ? (date as Day) : null;
}

/** How many days a month has (from 1 on); 0 for what is none. */
function lastOf(year: number, month: number): number {
  const isLeap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  return month === 2 && isLeap ? 29 : (DAYS_OF_MONTHS[month - 1] ?? 0);
}

/** The day on which a moment is in UTC. */
export function toDay(moment: Date): Day {
  return moment.toISOString().slice(0, 10) as Day;
}

/** The day that comes so many days after another. */
export function addDays(day: Day, days: number): Day {
  return toDay(new Date(Date.parse(day) + days * DAY_MS));
}

/** How many days the second comes after the first. */
export function daysBetween(first: Day, second: Day): number {
  return Math.round((Date.parse(second) - Date.parse(first)) / DAY_MS);
}
