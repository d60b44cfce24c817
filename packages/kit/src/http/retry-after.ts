/** Maximum delay: one week. Node timers fire immediately if a delay exceeds 2^31 - 1 ms (24.8 days). */
export const MAX_RETRY_AFTER_MS = 7 * 24 * 3_600_000;

/** Pattern of HTTP dates. The obsolete asctime format has no `GMT`. RFC 9110 §5.6.7. */
const HTTP_DATE_PATTERN = /^[A-Z][a-z]{2,8}(, .* GMT| [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})$/;

/**
 * Parses `Retry-After`: seconds, possibly with a fraction, or a date (RFC 9110 §10.2.3).
 * @param header Header value, if any.
 * @param now Current time in milliseconds since the epoch.
 * @returns Delay in milliseconds, at most `MAX_RETRY_AFTER_MS`. 0 for a past date, undefined for other values.
 */
export function parseRetryAfter(
  header: string | null | undefined,
  now: number = Date.now(),
): number | undefined {
  const value = header?.trim() ?? '';
  const delayMs = /^\d+(\.\d+)?$/.test(value) ? Number(value) * 1000 : parseHttpDate(value) - now;
  return Number.isNaN(delayMs) ? undefined : Math.min(Math.max(delayMs, 0), MAX_RETRY_AFTER_MS);
}

function parseHttpDate(value: string): number {
  if (!HTTP_DATE_PATTERN.test(value)) return Number.NaN;
  // `Date.parse` treats a date without a time zone as local time.
  return Date.parse(value.endsWith('GMT') ? value : `${value} GMT`);
}
