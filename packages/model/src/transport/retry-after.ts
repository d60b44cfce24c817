/** Response headers as undici gives them: lower-case names, repeated headers as a list. */
export type ResponseHeaders = Record<string, string | string[] | undefined>;

/**
 * How long a server asks to be left alone.
 *
 * @param headers The response's headers: `retry-after-ms` (milliseconds, a wide-spread extension)
 *   goes before `retry-after`, in seconds or as a date (RFC 9110 §10.2.3).
 * @param now The present, in milliseconds since the epoch, that a date is measured from.
 * @returns Milliseconds, at least 0; nothing when the server does not say or cannot be understood.
 */
export function retryAfterMs(headers: ResponseHeaders, now: number): number | undefined {
  const milliseconds = single(headers['retry-after-ms']);
  if (milliseconds !== undefined && isAmount(milliseconds)) return Number(milliseconds);

  const value = single(headers['retry-after']);
  if (value === undefined) return undefined;
  if (isAmount(value)) return Number(value) * 1000;
  // An HTTP date begins with the day's name; without this check `Date.parse` would guess at more.
  const date = /^[A-Z][a-z]{2,8},? /.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

function single(value: string | string[] | undefined): string | undefined {
  return (Array.isArray(value) ? value[0] : value)?.trim();
}

function isAmount(value: string): boolean {
  return /^\d{1,12}(\.\d{1,12})?$/.test(value);
}
