import { setTimeout as sleep } from 'node:timers/promises';
import { parseRetryAfter } from '@oselya/kit/retry-after';
import { Type } from 'typebox';
import { Value } from 'typebox/value';
import {
  type CollectorAddress,
  noCollector,
  refusal,
  requestCollector,
  UnreachableError,
} from '../collector-client.ts';
import { CommandError } from '../command-error.ts';
import { type HttpAnswer, problemText } from '../http.ts';
import type { Pause } from './pause.ts';

/**
 * What became of a record. One that is `known` or `unprocessed` was stored before, under the same idempotency key, and
 * the latter could not be processed since; what `failed` to be sent may go well another time.
 */
export type Delivery =
  | { outcome: 'accepted' | 'known' }
  | { outcome: 'unprocessed' | 'refused' | 'failed'; reason: string };

/** How payloads are sent. */
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

/** The limits of a minute are waited for; one that lasts longer than this, as that of new sources a day, ends the run. */
const LONGEST_HELD_BACK_MS = 3_600_000;

/** A limit that asks for no wait has one all the same, so that nobody is asked without a pause. */
const SHORTEST_HELD_BACK_MS = 1000;

/** However many others send for the same source, more turns than these at one record are a fault. */
const MAX_HELD_BACK = 1000;

/** What stands in the way of every record alike. */
const HOPELESS: ReadonlySet<number> = new Set([401, 403, 404, 405, 421]);

/**
 * Sends one payload until it is settled. A limit (429) is waited for, however often that takes; failures
 * of the collector (5xx, 408, 425) and of the way to it are tried again a few times. The idempotency key
 * makes it safe to send again what may have arrived.
 * @throws CommandError for what stands in the way of every record, or for hours; AbortError while it waits.
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
    if (askedMs !== undefined && askedMs > LONGEST_HELD_BACK_MS) {
      throw tooLong(reason, askedMs);
    }
    if (isAnswer(answer) && answer.status === 429 && askedMs !== undefined) {
      heldBack += 1;
      if (heldBack > MAX_HELD_BACK) return { outcome: 'failed', reason };
      pause.hold(Math.max(askedMs, SHORTEST_HELD_BACK_MS));
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
): Promise<HttpAnswer | UnreachableError> {
  try {
    return await requestCollector(collector, '/api/v1/ingest', {
      method: 'POST',
      headers: { 'idempotency-key': idempotencyKey },
      body: payload,
    });
  } catch (error) {
    if (error instanceof UnreachableError) return error;
    throw error;
  }
}

/** What an answer decides; undefined where the record should be sent again. */
function settle(answer: HttpAnswer | UnreachableError, url: string): Delivery | undefined {
  if (!isAnswer(answer)) return undefined;
  const { status, headers, body } = answer;
  if (status === 202 && Value.Check(accepted, body)) {
    if (!headers.has('idempotent-replayed')) return { outcome: 'accepted' };
    const now = headers.get('raw-status') ?? body.status;
    return UNPROCESSED.has(now)
      ? {
          outcome: 'unprocessed',
          reason: `was stored before (raw_id ${body.raw_id}) and ended ${now}`,
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

function tooLong(reason: string, askedMs: number): CommandError {
  const hours = Math.ceil(askedMs / 3_600_000);
  return new CommandError(`${reason}: give the command again in ${hours} hours`);
}

function isAnswer(answer: HttpAnswer | UnreachableError): answer is HttpAnswer {
  return !(answer instanceof UnreachableError);
}

function describe(answer: HttpAnswer | UnreachableError): string {
  if (!isAnswer(answer)) return `the collector cannot be reached (${answer.reason})`;
  const said = problemText(answer.body)?.text.replace(/\.$/, '');
  return `the collector answered ${answer.status}${said === undefined ? '' : `: ${said}`}`;
}

/** Doubles, and differs from one record to the next, so that not all of them come at one moment. */
function delayMs(attempt: number, initialDelayMs: number): number {
  const full = Math.min(initialDelayMs * 2 ** (attempt - 1), LONGEST_DELAY_MS);
  return full * (0.5 + Math.random() / 2);
}
