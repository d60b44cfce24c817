import { setTimeout as sleep } from 'node:timers/promises';
import { parseRetryAfter } from '@oselya/kit/retry-after';
import { Type } from 'typebox';
import { Value } from 'typebox/value';
import { CommandError } from '../command.ts';
import {
  type CollectorConnection,
  CollectorUnreachableError,
  createNotCollectorError,
  describeRejection,
  type HttpRequest,
  type HttpResponse,
  parseProblem,
  requestCollector,
} from '../http.ts';

/**
 * Result of sending a record. A `known` or `unprocessed` record was stored earlier under the same
 * idempotency key. An `unprocessed` record has the status `failed` or `invalid`.
 */
export type Delivery =
  | { outcome: 'accepted' | 'known' }
  | { outcome: 'unprocessed' | 'rejected' | 'failed'; reason: string };

type TemporaryFailure = {
  outcome: 'temporary';
  reason: string;
  status?: number;
  retryAfterMs?: number | undefined;
};

/** Function that sends one payload, retries temporary failures, and returns the outcome. */
export type DeliverPayload = (
  payload: object,
  idempotencyKey: string,
  signal: AbortSignal,
) => Promise<Delivery>;

const acceptedSchema = Type.Object({ raw_id: Type.Integer(), status: Type.String() });

/** Final statuses that require action by the operator. Specification 001, Raw data status. */
const UNPROCESSED_STATUSES: ReadonlySet<string> = new Set(['failed', 'invalid']);

/** Maximum number of attempts. Their delays add up to at most 31 s, unless `Retry-After` is longer. */
const MAX_ATTEMPTS = 7;
const INITIAL_DELAY_MS = 500;
const MAX_DELAY_MS = 15_000;

/** Maximum delay that `Retry-After` may request. A longer delay, such as for a daily limit, ends the run. */
const MAX_THROTTLE_MS = 3_600_000;
const MIN_THROTTLE_MS = 1000;

/** HTTP statuses that apply to every record, so they end the run. */
const RUN_ENDING_STATUSES: ReadonlySet<number> = new Set([401, 403, 404, 405, 421]);

const RETRYABLE_STATUSES: ReadonlySet<number> = new Set([408, 425, 429]);

/**
 * Creates a function that sends payloads. It waits out rate limits (429) with a `Retry-After` of at most an hour. It
 * retries network failures and other temporary failures (5xx, 408, 425, 429) a few times. The idempotency key makes
 * retries safe.
 * @param options.onRetry Called once for each distinct reason for a retry.
 * @returns A function that throws CommandError if `Retry-After` is longer or the response applies to every record, and
 *   AbortError if the signal aborts.
 */
export function createPayloadSender({
  collector,
  onRetry,
  initialDelayMs = INITIAL_DELAY_MS,
}: {
  collector: CollectorConnection;
  onRetry: (reason: string) => void;
  initialDelayMs?: number;
}): DeliverPayload {
  // A rate limit applies to all requests together.
  let throttledUntil = 0;
  const getThrottleMs = () => throttledUntil - performance.now();
  const reportedReasons = new Set<string>();

  function reportRetry(reason: string): void {
    // Reasons that differ only in numbers count as the same.
    const key = reason.replaceAll(/\d+/g, '');
    if (!reportedReasons.has(key)) onRetry(`${reason}. Retrying.`);
    reportedReasons.add(key);
  }

  return async (payload, idempotencyKey, signal) => {
    const headers = { 'idempotency-key': idempotencyKey };
    for (let attempt = 1; ;) {
      signal.throwIfAborted();
      for (let waitMs = getThrottleMs(); waitMs > 0; waitMs = getThrottleMs()) {
        await sleep(waitMs, undefined, { signal });
      }
      const result = await sendOnce(collector, { method: 'POST', headers, body: payload });
      if (result.outcome !== 'temporary') return result;
      const { reason, status, retryAfterMs } = result;
      if (retryAfterMs !== undefined && retryAfterMs > MAX_THROTTLE_MS) {
        const hours = Math.ceil(retryAfterMs / 3_600_000);
        throw new CommandError(`${reason}: run the command again in ${hours} hours`);
      }
      if (status === 429 && retryAfterMs !== undefined) {
        const retryTime = performance.now() + Math.max(retryAfterMs, MIN_THROTTLE_MS);
        throttledUntil = Math.max(throttledUntil, retryTime);
        reportRetry(reason);
        continue;
      }
      if (attempt === MAX_ATTEMPTS) return { outcome: 'failed', reason };
      reportRetry(reason);
      const backoffMs = Math.min(initialDelayMs * 2 ** (attempt - 1), MAX_DELAY_MS);
      const jitteredMs = backoffMs * (0.5 + Math.random() / 2);
      await sleep(Math.max(retryAfterMs ?? 0, jitteredMs), undefined, { signal });
      attempt += 1;
    }
  };
}

async function sendOnce(
  collector: CollectorConnection,
  request: HttpRequest,
): Promise<Delivery | TemporaryFailure> {
  let response: HttpResponse;
  try {
    response = await requestCollector(collector, '/api/v1/ingest', request);
  } catch (error) {
    if (!(error instanceof CollectorUnreachableError)) throw error;
    return { outcome: 'temporary', reason: `the collector cannot be reached (${error.reason})` };
  }
  const { status, headers, body } = response;
  if (status === 202 && Value.Check(acceptedSchema, body)) {
    if (!headers.has('idempotent-replayed')) return { outcome: 'accepted' };
    const rawStatus = headers.get('raw-status') ?? body.status;
    if (!UNPROCESSED_STATUSES.has(rawStatus)) return { outcome: 'known' };
    const reason = `was stored before (raw_id ${body.raw_id}) and ended ${rawStatus}`;
    return { outcome: 'unprocessed', reason };
  }
  if (status < 400) throw createNotCollectorError(collector.url);
  if (RUN_ENDING_STATUSES.has(status)) {
    throw new CommandError(describeRejection(response, { subject: 'the record', scope: 'ingest' }));
  }
  const problem = parseProblem(body)?.text.replace(/\.$/, '');
  const reason = `the collector responded with status ${status}${problem === undefined ? '' : `: ${problem}`}`;
  if (status < 500 && !RETRYABLE_STATUSES.has(status)) return { outcome: 'rejected', reason };
  const retryAfterMs = parseRetryAfter(headers.get('retry-after'));
  return { outcome: 'temporary', reason, status, retryAfterMs };
}
