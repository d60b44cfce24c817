import { LONGEST_RETRY_MS, parseRetryAfter } from '@oselya/kit/retry-after';

/** Response headers as undici gives them: lower-case names, repeated headers as a list. */
export type ResponseHeaders = Record<string, string | string[] | undefined>;

/**
 * How long a model server asks to be left alone.
 *
 * @param headers The response's headers: `retry-after-ms` (milliseconds, a wide-spread extension)
 *   goes before `retry-after`.
 * @param now The present, in milliseconds since the epoch, that a date is measured from.
 * @returns Milliseconds, within the bounds of `parseRetryAfter`; nothing when the server does not say or cannot be
 *   understood.
 */
export function retryAfterMs(headers: ResponseHeaders, now: number): number | undefined {
  const milliseconds = Number(single(headers['retry-after-ms']) || Number.NaN);
  if (milliseconds >= 0) return Math.min(milliseconds, LONGEST_RETRY_MS);
  return parseRetryAfter(single(headers['retry-after']), now);
}

function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}
