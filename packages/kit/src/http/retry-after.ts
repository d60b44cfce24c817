/**
 * A week, in milliseconds: after that, whatever a server meant is over. Whoever waits does so with a timer, and
 * one of more than 2^31 - 1 ms, which is not 25 days, is over at once.
 */
export const LONGEST_RETRY_MS = 7 * 24 * 3_600_000;

/**
 * How long a server asks to be left alone: seconds or a date in any of the forms of HTTP (RFC 9110 §10.2.3 and
 * §5.6.7). Parts of a second, which some servers send, are understood too.
 * @param header The value of `Retry-After`; null or undefined where there is none.
 * @param now The present, in milliseconds since the epoch, that a date is measured from.
 * @returns Milliseconds, from 0 for what has passed to `LONGEST_RETRY_MS`; undefined where it says nothing, or
 *   nothing that can be understood.
 */
export function parseRetryAfter(
  header: string | null | undefined,
  now: number = Date.now(),
): number | undefined {
  const value = header?.trim() ?? '';
  const ms = /^\d+(\.\d+)?$/.test(value) ? Number(value) * 1000 : parseHttpDate(value, now) - now;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), LONGEST_RETRY_MS);
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const TIME = String.raw`(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)`;
const MONTH = String.raw`(?<month>[A-Z][a-z]{2})`;

/** The three forms of a date in HTTP, the last two of which only old servers write. */
const DATES = [
  // Sun, 06 Nov 1994 08:49:37 GMT
  String.raw`[A-Z][a-z]{2}, (?<day>\d\d) ${MONTH} (?<year>\d{4}) ${TIME} GMT`,
  // Sunday, 06-Nov-94 08:49:37 GMT
  String.raw`[A-Z][a-z]{5,8}, (?<day>\d\d)-${MONTH}-(?<year>\d\d) ${TIME} GMT`,
  // Sun Nov  6 08:49:37 1994
  String.raw`[A-Z][a-z]{2} ${MONTH} (?<day>[ \d]\d) ${TIME} (?<year>\d{4})`,
].map((form) => new RegExp(`^${form}$`));

/** Milliseconds since the epoch; NaN for what is no date. `Date.parse` would guess, and take a time for local. */
function parseHttpDate(value: string, now: number): number {
  const parts = DATES.map((form) => form.exec(value)?.groups).find(
    (groups) => groups !== undefined,
  );
  if (parts === undefined) return Number.NaN;
  const { day, month = '', year = '', hour, minute, second } = parts;
  const index = MONTHS.indexOf(month);
  if (index === -1) return Number.NaN;
  const inYear = (full: number) =>
    Date.UTC(full, index, Number(day), Number(hour), Number(minute), Number(second));
  if (year.length === 4) return inYear(Number(year));
  // Of two digits that year is meant which is not more than 50 years ahead.
  const thisYear = new Date(now).getUTCFullYear();
  const full = thisYear - (thisYear % 100) + Number(year);
  return inYear(full > thisYear + 50 ? full - 100 : full);
}
