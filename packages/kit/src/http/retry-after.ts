/** A week, in milliseconds, which timers can wait: past 2^31 - 1 ms, not 25 days, they fire at once. */
export const LONGEST_RETRY_MS = 7 * 24 * 3_600_000;

/** The forms of a date in HTTP, of which only old servers write the one without `GMT`. RFC 9110 §5.6.7. */
const HTTP_DATE = /^[A-Z][a-z]{2,8}(, .* GMT| [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})$/;

/**
 * Parses how long a server asks its clients to wait: seconds, also with a fraction, or a date (RFC 9110 §10.2.3).
 * @param header The value of `Retry-After`; null or undefined where there is none.
 * @param now Milliseconds since the epoch, from which a date is measured.
 * @returns Milliseconds, at most `LONGEST_RETRY_MS` and 0 for the past; undefined for any other text.
 */
export function parseRetryAfter(
  header: string | null | undefined,
  now: number = Date.now(),
): number | undefined {
  const value = header?.trim() ?? '';
  const ms = /^\d+(\.\d+)?$/.test(value) ? Number(value) * 1000 : parseHttpDate(value) - now;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), LONGEST_RETRY_MS);
}

function parseHttpDate(value: string): number {
  if (!HTTP_DATE.test(value)) return Number.NaN;
  // Without a zone `Date.parse` takes a time for local.
  return Date.parse(value.endsWith('GMT') ? value : `${value} GMT`);
}
