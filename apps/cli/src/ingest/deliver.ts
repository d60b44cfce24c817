import { setTimeout as sleep } from 'node:timers/promises';
import { parseRetryAfter } from '@oselya/kit/retry-after';
import { Type } from 'typebox';
import { Value } from 'typebox/value';
import {
  type CollectorAddress,
  type CollectorAnswer,
  noCollector,
  postToCollector,
  problemText,
  refusal,
  UnreachableError,
} from '../collector-client.ts';
import { CommandError } from '../command-error.ts';
import type { Pause } from './pause.ts';

/**
 * What became of a record. One that is `known` or `unprocessed` was stored before, under the same idempotency key, and
 * the latter could not be processed since; what `failed` to be sent may go well another time.
 */
export type Delivery =
  | { outcome: 'accepted' | 'known' }
  | { outcome: 'unprocessed' | 'refused' | 'failed'; reason: string };

export type DeliverOptions = {
  collector: CollectorAddress;
  pause: Pause;
  signal: AbortSignal;
  /** Told why a request was not taken and is tried again. */
  onRetry: (reason: string) => void;
  /** The wait after the first failure; it doubles. */
  initialDelayMs?: number;
};

const accepted = Type.Object({ raw_id: Type.Integer(), status: Type.String() });

/** How a payload stands that was not processed well, and will not be by itself. Specification 001, Raw data status. */
const UNPROCESSED: ReadonlySet<string> = new Set(['failed', 'invalid']);

/** Tries at a collector that fails or cannot be reached: about half a minute in all. */
const ATTEMPTS = 7;
const INITIAL_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;

/** Each limit ends after a minute; more turns than that at one record are a fault. */
const MAX_HELD_BACK = 1000;

/** What stands in the way of every record alike. */
const HOPELESS: ReadonlySet<number> = new Set([401, 403, 404, 405, 421]);

/**
 * Sends one payload until it is settled. A limit (429) is waited for, however often that takes; failures
 * of the collector (5xx, 408, 425) and of the way to it are tried again a few times. The idempotency key
 * makes it safe to send again what may have arrived.
 * @throws CommandError for what stands in the way of every record; AbortError while it waits.
 */
export async function deliver(
  payload: object,
  idempotencyKey: string,
  { collector, pause, signal, onRetry, initialDelayMs = INITIAL_DELAY_MS }: DeliverOptions,
): Promise<Delivery> {
  let attempts = 0;
  let heldBack = 0;
  for (;;) {
    await pause.wait(signal);
    const answer = await send(collector, payload, idempotencyKey);
    const settled = settle(answer, collector.url);
    if (settled !== undefined) return settled;
    const reason = describe(answer);
    const askedMs = isAnswer(answer)
      ? parseRetryAfter(answer.headers.get('retry-after'))
      : undefined;
    if (isAnswer(answer) && answer.status === 429 && askedMs !== undefined) {
      heldBack += 1;
      if (heldBack > MAX_HELD_BACK) return { outcome: 'failed', reason };
      pause.hold(askedMs);
      onRetry(reason);
      continue;
    }
    attempts += 1;
    if (attempts === ATTEMPTS) return { outcome: 'failed', reason };
    onRetry(reason);
    await sleep(Math.max(askedMs ?? 0, delayMs(attempts, initialDelayMs)), undefined, { signal });
  }
}

async function send(
  collector: CollectorAddress,
  payload: object,
  idempotencyKey: string,
): Promise<CollectorAnswer | UnreachableError> {
  try {
    return await postToCollector(collector, '/api/v1/ingest', payload, {
      'idempotency-key': idempotencyKey,
    });
  } catch (error) {
    if (error instanceof UnreachableError) return error;
    throw error;
  }
}

/** What an answer decides; undefined where the record should be sent again. */
function settle(answer: CollectorAnswer | UnreachableError, url: string): Delivery | undefined {
  if (!isAnswer(answer)) return undefined;
  const { status, headers, body } = answer;
  if (status === 202 && Value.Check(accepted, body)) {
    if (!headers.has('idempotent-replayed')) return { outcome: 'accepted' };
    return UNPROCESSED.has(body.status)
      ? {
          outcome: 'unprocessed',
          reason: `was stored before (raw_id ${body.raw_id}) and ended ${body.status}`,
        }
      : { outcome: 'known' };
  }
  if (status < 400) throw noCollector(url);
  if (HOPELESS.has(status)) {
    throw new CommandError(refusal(answer, { what: 'the record', scope: 'ingest' }));
  }
  if (status >= 500 || status === 429 || status === 408 || status === 425) return undefined;
  return { outcome: 'refused', reason: describe(answer) };
}

function isAnswer(answer: CollectorAnswer | UnreachableError): answer is CollectorAnswer {
  return !(answer instanceof UnreachableError);
}

function describe(answer: CollectorAnswer | UnreachableError): string {
  if (!isAnswer(answer)) return `the collector cannot be reached (${answer.reason})`;
  const said = problemText(answer.body)?.text.replace(/\.$/, '');
  return `the collector answered ${answer.status}${said === undefined ? '' : `: ${said}`}`;
}

/** Doubles, and differs from one record to the next, so that not all of them come at one moment. */
function delayMs(attempt: number, initialDelayMs: number): number {
  const full = Math.min(initialDelayMs * 2 ** (attempt - 1), LONGEST_DELAY_MS);
  return full * (0.5 + Math.random() / 2);
}
