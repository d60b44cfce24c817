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

/** A request that has no answer by then is asked again, as a client does. */
const PATIENCE_MS = 15_000;
/** One that waits for its pipeline may wait for the database for 30 s, and then for the answer. */
const UPLOAD_PATIENCE_MS = 60_000;
const PAUSE_MS = 20;
/** Few listings, so that their payloads come again and have to wait for one another. */
const LISTINGS = 30;
/** Each tenth payload comes with its picture and waits for the pipeline. */
const UPLOADS_EVERY = 10;

/** Which codes mean that the database was away for a request, of which it is to be sent again. */
const OUTAGES = new Set([
  'ingest_failed',
  'interrupted',
  'lease_lost',
  'still_processing',
  'uploads_busy',
]);

export type LoadResult = {
  /** What was accepted, by its key: the record's id. */
  accepted: Map<string, number>;
  /** What came with its picture and is processed, likewise. */
  uploaded: Map<string, number>;
  /** Requests without an answer, and those that were answered that the database is away. */
  unanswered: number;
  unavailable: number;
  /** Everything else, which there should be none of. */
  wrong: string[];
};

/** A request that is sent until it is taken. */
type Sending = {
  path: string;
  headers: Record<string, string>;
  body: string | FormData;
  patienceMs: number;
  /** Where it is noted that it was taken. */
  taken: Map<string, number>;
};

/** The source of what comes with its pictures. */
export const uploadsOf = (source: string): string => `${source}-uploads`;

/**
 * Sends payloads over so many connections, to each of the collectors in turn, and each payload again, to
 * the other one, until it is accepted, under an idempotency key of its own. Each names two pictures, of which
 * one is new, or brings one along.
 * @param options.urls Of the collectors; these may change meanwhile, and nobody asks one whose address is empty.
 * @param options.pictures Where there is a picture at each address; no payload has any without.
 * @param options.onAccepted Told of each payload that was accepted, and where.
 */
export function startIngest(
  source: string,
  options: {
    urls: readonly string[];
    connections: number;
    pictures?: string;
    onAccepted?: (url: string, headers: Headers) => void;
  },
) {
  const { urls, connections, pictures, onAccepted } = options;
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
    if (pictures !== undefined && nth % UPLOADS_EVERY === 0) {
      const payload = { ...payloadOf(uploadsOf(source), nth), external_id: String(nth) };
      const bytes = await createImage('png', { width: 16, height: 12, colour: colourOf(nth) });
      const form = formOf(payload, [{ name: 'a.png', bytes: Uint8Array.from(bytes) }]);
      const rest = { patienceMs: UPLOAD_PATIENCE_MS, taken: result.uploaded };
      return { path: 'ingest/with-images', headers: {}, body: form, ...rest };
    }
    const payload = payloadOf(source, nth);
    const shown = pictures === undefined ? [] : [payload.external_id, nth];
    const image_urls = shown.map((name) => `${pictures}/${source}-${name}.png`);
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
    /** Ends when everything that was sent has been accepted. */
    async stop(): Promise<LoadResult> {
      stopping.abort();
      await running;
      return result;
    },
  };
}

/** Tells a payload from all others of a load. */
export const priceOf = (nth: number): number => 50_000 + nth;

/** The key under which a payload is sent. */
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

/** Senders, each of which waits for its answer. */
const SENDERS = 12;
/** Payloads that are accepted before, between and after what happens. */
const SOME = repetitions({ soak: 60, ci: 20 });
/** A lost job waits for its lease, of 5 s here, and then for the next look for such jobs. */
const LOST_JOB_MS = 60_000;

/** Listings and pictures of tests are much alike, so that there is much to compare. */
const SEARCH_MS = 180_000;

/** Whether nobody has anything to look for any more; what met an outage there waits for a time of its own. */
async function hasNoMarks(db: Kysely<Tables>): Promise<boolean> {
  const { rows } = await sql`
    select from duplicate_marks where claimed_until is null or claimed_until < now() limit 1`.execute(
    db,
  );
  return rows.length === 0;
}

/** Puts a load on collectors, which is judged by how it ends and by what that leaves. */
export async function putLoad(collectors: Collectors, db: Kysely<Tables>, source: string) {
  const untilNothingIsLeft = await collectors.watch();
  const ingest = startIngest(source, { ...collectors, connections: SENDERS });
  const { result } = ingest;
  return {
    result,
    /** Waits until some more payloads are accepted. */
    async goesOn(): Promise<void> {
      const wanted = result.accepted.size + SOME;
      await until('payloads to be accepted', () => result.accepted.size >= wanted, LOST_JOB_MS);
    },
    /** Waits until workers are at it: after an outage they take a second and more to begin again. */
    async isInProgress(): Promise<void> {
      const processing = db
        .selectFrom('raw_data')
        .select('id')
        .where('source_slug', '=', source)
        .where('status', '=', 'processing')
        .limit(1);
      await until('jobs to be in progress', () => processing.executeTakeFirst(), LOST_JOB_MS);
    },
    /** Ends it, and waits for all that it sent. */
    async end(): Promise<void> {
      await ingest.stop();
      await untilEnded(db, LOST_JOB_MS);
      await until('duplicates to be found', () => hasNoMarks(db), SEARCH_MS);
    },
    async judge(context: TestContext, { mostAttempts = 1 } = {}): Promise<void> {
      const attempts = await judgeIngest(db, { source, result, mostAttempts });
      const { accepted, uploaded, unavailable, unanswered } = result;
      context.diagnostic(
        `${accepted.size} accepted, ${uploaded.size} with their pictures, ${unavailable} told of an outage, ` +
          `${unanswered} without an answer; ${attempts} attempts at most`,
      );
      await untilNothingIsLeft();
    },
  };
}
