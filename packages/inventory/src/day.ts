/** A calendar day as ISO 8601 writes it, such as 2026-11-20. Days compare as their strings do. */
export type Day = string & { readonly isDay: true };

const DAY = /^(\d{4})-(\d{2})-(\d{2})/;
// A space may stand for the T (RFC 3339 §5.6).
const TIME =
  /^[T ]([01]\d|2[0-3]):[0-5]\d(:([0-5]\d|60)(\.\d+)?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?$/i;

/**
 * Reads a day, or a moment of which only the day counts (RFC 3339 §5.6, time zone optional); null when it
 * is none, such as 2026-02-30.
 */
export function readDay(text: string): Day | null {
  const [date = '', year, month, dayOfMonth] = DAY.exec(text) ?? [];
  const rest = text.slice(date.length);
  if (date === '' || (rest !== '' && !TIME.test(rest))) return null;
  const day = new Date(Date.UTC(Number(year), Number(month) - 1, Number(dayOfMonth)));
  // Years below 100 mean others to Date; there was no network then.
  return toDay(day) === date ? (date as Day) : null;
}

/** The day on which a moment is in UTC. */
export function toDay(moment: Date): Day {
  return moment.toISOString().slice(0, 10) as Day;
}

/** How many days the second comes after the first. */
export function daysBetween(first: Day, second: Day): number {
  return Math.round((Date.parse(second) - Date.parse(first)) / 86_400_000);
}
