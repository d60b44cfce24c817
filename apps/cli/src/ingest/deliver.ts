import { setTimeout as sleep } from 'node:timers/promises';
import { parseRetryAfter } from '@oselya/kit/retry-after';
import { Type } from 'typebox';
import { Value } from 'typebox/value';
import { CommandError } from '../command.ts';
import {
  type CollectorConnection,
  type HttpResponse,
  createNotCollectorError,
  parseProblem,
  describeRejection,
  requestCollector,
  CollectorUnreachableError,
} from '../http.ts';

/**
 * Result of sending a record. A `known` or `unprocessed` record was stored earlier under the same
 * idempotency key. An `unprocessed` record has the status `failed` or `invalid`. A `failed` delivery may be retried later.
 */
export type Delivery =
  | { outcome: 'accepted' | 'known' }
  | { outcome: 'unprocessed' | 'rejected' | 'failed'; reason: string };

/** Delays all requests of a run together, because a rate limit applies to all of them. */
export type Throttle = {
  /** Waits until requests may be sent. @throws AbortError */
  wait(signal: AbortSignal): Promise<void>;
  /** Delays all requests by a duration from now. */
  delay(durationMs: number): void;
};

/** Creates a throttle. */
export function createThrottle(): Throttle {
  let until = 0;
  return {
    async wait(signal) {
      signal.throwIfAborted();
      for (let left = until - performance.now(); left > 0; left = until - performance.now()) {
        await sleep(left, undefined, { signal });
      }
    },
    delay(durationMs) {
      until = Math.max(until, performance.now() + durationMs);
    },
  };
}

/** Options for sending payloads. */
export type DeliverOptions = {
  collector: CollectorConnection;
  throttle: Throttle;
  signal: AbortSignal;
  /** Called before each retry with its reason. */
  onRetry: (reason: string) => void;
  /** Delay before the first retry in milliseconds. It doubles with each retry. */
  initialDelayMs?: number;
};

const accepted = Type.Object({ raw_id: Type.Integer(), status: Type.String() });

/** Final statuses that need the operator. Specification 001, Raw data status. */
const UNPROCESSED_STATUSES: ReadonlySet<string> = new Set(['failed', 'invalid']);

/** About half a minute in total. */
const MAX_ATTEMPTS = 7;
const INITIAL_DELAY_MS = 500;
const MAX_DELAY_MS = 15_000;

/** A longer delay, such as for a daily limit, ends the run. */
const MAX_THROTTLE_MS = 3_600_000;
const MIN_THROTTLE_MS = 1000;

/** HTTP statuses that apply to every record, so they end the run. */
const RUN_ENDING_STATUSES: ReadonlySet<number> = new Set([401, 403, 404, 405, 421]);

/**
 * Sends one payload until the result is known. Waits for rate limits (429) without a limit, and retries
 * failures of the collector (5xx, 408, 425) and of the network a few times. The idempotency key makes it safe
 * to repeat a request that may have been processed.
 * @throws CommandError for a response that applies to every record, AbortError if the signal aborts.
 */
export async function deliverPayload(
  payload: object,
  idempotencyKey: string,
  options: DeliverOptions,
): Promise<Delivery> {
  const { collector, throttle, signal, onRetry, initialDelayMs = INITIAL_DELAY_MS } = options;
  for (let attempt = 1; ;) {
    await throttle.wait(signal);
    const answer = await requestCollector(collector, '/api/v1/ingest', {
      method: 'POST',
      headers: { 'idempotency-key': idempotencyKey },
      body: payload,
    }).catch((error: unknown) => {
      if (error instanceof CollectorUnreachableError) return error;
      throw error;
    });
    const isAnswer = !(answer instanceof CollectorUnreachableError);
    const result = isAnswer ? toDelivery(answer, collector.url) : undefined;
    if (result !== undefined) return result;
    const reason = describe(answer);
    const askedMs = isAnswer ? parseRetryAfter(answer.headers.get('retry-after')) : undefined;
    if (askedMs !== undefined && askedMs > MAX_THROTTLE_MS) {
      const hours = Math.ceil(askedMs / 3_600_000);
      throw new CommandError(`${reason}: give the command again in ${hours} hours`);
    }
    if (isAnswer && answer.status === 429 && askedMs !== undefined) {
      throttle.delay(Math.max(askedMs, MIN_THROTTLE_MS));
      onRetry(reason);
      continue;
    }
    if (attempt === MAX_ATTEMPTS) return { outcome: 'failed', reason };
    onRetry(reason);
    const backoffMs = Math.min(initialDelayMs * 2 ** (attempt - 1), MAX_DELAY_MS);
    const jittered = backoffMs * (0.5 + Math.random() / 2);
    await sleep(Math.max(askedMs ?? 0, jittered), undefined, { signal });
    attempt += 1;
  }
}

/** Converts a response to a result. Undefined means retry. */
function toDelivery(answer: HttpResponse, url: string): Delivery | undefined {
  const { status, headers, body } = answer;
  if (status === 202 && Value.Check(accepted, body)) {
    if (!headers.has('idempotent-replayed')) return { outcome: 'accepted' };
    const now = headers.get('raw-status') ?? body.status;
    if (!UNPROCESSED_STATUSES.has(now)) return { outcome: 'known' };
    return {
      outcome: 'unprocessed',
      reason: `was stored before (raw_id ${body.raw_id}) and ended ${now}`,
    };
  }
  if (status < 400) throw createNotCollectorError(url);
  if (RUN_ENDING_STATUSES.has(status)) {
    throw new CommandError(describeRejection(answer, { what: 'the record', scope: 'ingest' }));
  }
  if (status >= 500 || status === 429 || status === 408 || status === 425) return undefined;
  return { outcome: 'rejected', reason: describe(answer) };
}

function describe(answer: HttpResponse | CollectorUnreachableError): string {
  if (answer instanceof CollectorUnreachableError) {
    return `the collector cannot be reached (${answer.reason})`;
  }
  const problem = parseProblem(answer.body)?.text.replace(/\.$/, '');
  return `the collector answered ${answer.status}${problem === undefined ? '' : `: ${problem}`}`;
}

/** Creates a function that reports each reason for a retry once. */
export function createRetryReporter(report: (line: string) => void): (reason: string) => void {
  const reported = new Set<string>();
  return (reason) => {
    // Reasons that differ only in numbers count as equal.
    const kind = reason.replaceAll(/\d+/g, '');
    if (reported.has(kind)) return;
    reported.add(kind);
    report(`${reason}. Retrying.`);
  };
}
