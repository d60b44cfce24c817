import { until } from '@oselya/testing';
import { sql, type Kysely } from 'kysely';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Payload } from '../../src/ingest/payload.ts';
import type { Tables } from '../../src/tables.ts';
import { formOf } from '../support/collector.ts';
import { createImage } from '../support/images.ts';
import { repetitions } from '../support/soak.ts';
import type { Collectors } from './collectors.ts';
import { judgeIngest, untilEnded } from './judge.ts';

/** Numbers from 0 up to, but not including, 1; equal seeds give equal ones. A linear congruence does. */
export function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** A request without a response is repeated after this time. */
const PATIENCE_MS = 15_000;
/** A request with images may wait 30 s for the database and then for the model. */
const UPLOAD_PATIENCE_MS = 60_000;
const PAUSE_MS = 20;
/** Few listings, so that their payloads come again and have to wait for one another. */
const LISTINGS = 30;
/** Each tenth payload is sent with its image. */
const UPLOADS_EVERY = 10;

/** Error codes of a database outage, after which a request is repeated. */
const OUTAGES = new Set([
  'ingest_failed',
  'interrupted',
  'lease_lost',
  'still_processing',
  'uploads_busy',
]);

export type LoadResult = {
  /** The record ids of accepted payloads by key. */
  accepted: Map<string, number>;
  /** The record ids of payloads processed with images by key. */
  uploaded: Map<string, number>;
  /** Requests without a response or rejected during an outage. */
  unanswered: number;
  unavailable: number;
  /** Unexpected responses. */
  wrong: string[];
};

/** A request that is repeated until it is accepted. */
type Sending = {
  path: string;
  headers: Record<string, string>;
  body: string | FormData;
  patienceMs: number;
  /** The record ids of accepted requests. */
  taken: Map<string, number>;
};

/** The source of payloads with uploads. */
export const uploadsOf = (source: string): string => `${source}-uploads`;

/**
 * Sends payloads over several connections to the collectors in rotation, and repeats each payload at
 * the other collector until it is accepted under its idempotency key. Each has two image addresses, of which
 * one is new, or brings one along.
 * @param options.urls The addresses of the collectors, which may change; an empty one is skipped.
 * @param options.imageHost A host with an image at each address; payloads have no images without it.
 * @param options.onAccepted Called for each accepted payload with its collector.
 */
export function startIngest(
  source: string,
  options: {
    urls: readonly string[];
    connections: number;
    imageHost?: string;
    onAccepted?: (url: string, headers: Headers) => void;
  },
) {
  const { urls, connections, imageHost, onAccepted } = options;
  const result: LoadResult = {
    accepted: new Map(),
    uploaded: new Map(),
    unanswered: 0,
    unavailable: 0,
    wrong: [],
  };
  const stopping = new AbortController();
  let made = 0;

  async function send(url: string, key: string, sending: Sending): Promise<boolean> {
    const { path, headers, body, patienceMs, taken } = sending;
    try {
      const response = await fetch(`${url}/api/v1/${path}`, {
        method: 'POST',
        headers: { ...headers, 'idempotency-key': key },
        body,
        signal: AbortSignal.timeout(patienceMs),
      });
      const answer = (await response.json()) as { raw_id: number; code: string };
      if (response.ok) {
        onAccepted?.(url, response.headers);
        taken.set(key, answer.raw_id);
        return true;
      }
      if (OUTAGES.has(answer.code)) result.unavailable += 1;
      else result.wrong.push(`${response.status} ${JSON.stringify(answer)}`);
    } catch {
      result.unanswered += 1;
    }
    return false;
  }

  async function sendingOf(nth: number): Promise<Sending> {
    if (imageHost !== undefined && nth % UPLOADS_EVERY === 0) {
      const payload = { ...payloadOf(uploadsOf(source), nth), external_id: String(nth) };
      const bytes = await createImage('png', { width: 16, height: 12, colour: colourOf(nth) });
      const form = formOf(payload, [{ name: 'a.png', bytes: Uint8Array.from(bytes) }]);
      const rest = { patienceMs: UPLOAD_PATIENCE_MS, taken: result.uploaded };
      return { path: 'ingest/with-images', headers: {}, body: form, ...rest };
    }
    const payload = payloadOf(source, nth);
    const shown = imageHost === undefined ? [] : [payload.external_id, nth];
    const image_urls = shown.map((name) => `${imageHost}/${source}-${name}.png`);
    return {
      path: 'ingest',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...payload, image_urls }),
      patienceMs: PATIENCE_MS,
      taken: result.accepted,
    };
  }

  async function sendOnAndOn(): Promise<void> {
    while (!stopping.signal.aborted) {
      const nth = (made += 1);
      const sending = await sendingOf(nth);
      for (let turn = nth; ; turn += 1) {
        const url = urls[turn % urls.length] ?? '';
        if (url !== '' && (await send(url, keyOf(source, nth), sending))) break;
        await sleep(PAUSE_MS);
      }
    }
  }

  const running = Promise.all(Array.from({ length: connections }, sendOnAndOn));
  return {
    result,
    /** Ends when all sent payloads are accepted. */
    async stop(): Promise<LoadResult> {
      stopping.abort();
      await running;
      return result;
    },
  };
}

/** Identifies a payload within a load. */
export const priceOf = (nth: number): number => 50_000 + nth;

/** Returns the idempotency key of a payload. */
export const keyOf = (source: string, nth: number): string => `${source}-${nth}`;

function payloadOf(source: string, nth: number): Payload {
  return {
    source_slug: source,
    external_id: `flat-${nth % LISTINGS}`,
    description: `Продам двокімнатну квартиру у Львові, ${40 + (nth % LISTINGS)} м², 3 поверх з 5.`,
    price: priceOf(nth),
    currency: 'USD',
  };
}

/** A colour for each number below sixteen million. */
const colourOf = (nth: number): string => `#${nth.toString(16).padStart(6, '0')}`;

/** The number of concurrent senders. */
const SENDERS = 12;
/** The number of payloads before, between and after faults. */
const SOME = repetitions({ soak: 60, ci: 20 });
/** A lost job waits for its lease of 5 s and for the next sweep. */
const LOST_JOB_MS = 60_000;

/** The search for duplicates compares many similar listings. */
const SEARCH_MS = 180_000;

/** Returns whether the search for duplicates is done. */
async function hasNoMarks(db: Kysely<Tables>): Promise<boolean> {
  const { rows } = await sql`
    select from duplicate_marks where claimed_until is null or claimed_until < now() limit 1`.execute(
    db,
  );
  return rows.length === 0;
}

/** Puts a load on collectors and checks its outcome. */
export async function putLoad(collectors: Collectors, db: Kysely<Tables>, source: string) {
  const untilResourcesAreFree = await collectors.watch();
  const ingest = startIngest(source, { ...collectors, connections: SENDERS });
  const { result } = ingest;
  return {
    result,
    /** Waits until some more payloads are accepted. */
    async untilMoreAccepted(): Promise<void> {
      const wanted = result.accepted.size + SOME;
      await until('payloads to be accepted', () => result.accepted.size >= wanted, LOST_JOB_MS);
    },
    /** Waits until jobs are in progress, which takes a second or more after an outage. */
    async isInProgress(): Promise<void> {
      const processing = db
        .selectFrom('raw_data')
        .select('id')
        .where('source_slug', '=', source)
        .where('status', '=', 'processing')
        .limit(1);
      await until('jobs to be in progress', () => processing.executeTakeFirst(), LOST_JOB_MS);
    },
    /** Ends the load and waits for all sent payloads. */
    async end(): Promise<void> {
      await ingest.stop();
      await untilEnded(db, LOST_JOB_MS);
      await until('duplicates to be found', () => hasNoMarks(db), SEARCH_MS);
    },
    async judge(context: TestContext, { mostAttempts = 1 } = {}): Promise<void> {
      const attempts = await judgeIngest(db, { source, result, mostAttempts });
      const { accepted, uploaded, unavailable, unanswered } = result;
      context.diagnostic(
        `${accepted.size} accepted, ${uploaded.size} with their images, ${unavailable} met an outage, ` +
          `${unanswered} without an answer; ${attempts} attempts at most`,
      );
      await untilResourcesAreFree();
    },
  };
}
