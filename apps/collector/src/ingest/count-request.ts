import type { Metrics } from '../metrics.ts';

/**
 * Counts a request by its answer: `accepted`, `conflict`, `rate_limited`, `failed` (every 5xx), or
 * `refused`. Contract 4, Metrics.
 * @param source Of a payload that was found valid: only such a one may become a label, and undefined without.
 */
export function countRequest(
  { ingestRequests }: Pick<Metrics, 'ingestRequests'>,
  { statusCode }: { statusCode: number },
  source: string | undefined,
): void {
  const outcome = outcomeOf(statusCode);
  ingestRequests.inc({ source: outcome === 'refused' ? undefined : source, outcome });
}

function outcomeOf(status: number): string {
  if (status < 300) return 'accepted';
  if (status === 409) return 'conflict';
  if (status === 429) return 'rate_limited';
  return status >= 500 ? 'failed' : 'refused';
}
