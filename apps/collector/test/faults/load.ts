import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { until, getRepetitions } from '@oselya/testing';
import { sql, type Kysely } from 'kysely';
import type { Payload } from '../../src/ingest/payload.ts';
import type { Tables } from '../../src/tables.ts';
import { createForm } from '../support/collector.ts';
import { createImage } from '../support/images.ts';

/** Creates a generator of pseudorandom numbers in [0, 1). The same seed gives the same sequence. */
export function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Timeout of a JSON request, which is then retried. */
const TIMEOUT_MS = 15_000;
/** Timeout of a form, which is then retried. */
const UPLOAD_TIMEOUT_MS = 60_000;
/** Pause before a request is retried. */
const PAUSE_MS = 20;
/** Number of listings: low, so that payloads of one listing wait for each other. */
const LISTING_COUNT = 30;
/** Distance between the sequence numbers of payloads with an upload. */
const UPLOAD_INTERVAL = 10;

/** Error codes that a database outage may cause. Any other error code fails the test. */
const OUTAGE_CODES = new Set([
  'ingest_failed',
  'interrupted',
  'lease_lost',
  'still_processing',
  'uploads_busy',
]);

/** Returns the source of payloads with uploads. */
const getUploadSource = (source: string): string => `${source}-uploads`;

/** Returns the unique price that identifies a payload. */
export const getPrice = (sequenceNumber: number): number => 50_000 + sequenceNumber;

/** Returns the idempotency key of a payload. */
export const getKey = (source: string, sequenceNumber: number): string =>
  `${source}-${sequenceNumber}`;

function createLoadPayload(source: string, sequenceNumber: number): Payload {
  return {
    source_slug: source,
    external_id: `flat-${sequenceNumber % LISTING_COUNT}`,
    description: `Продам двокімнатну квартиру у Львові, ${40 + (sequenceNumber % LISTING_COUNT)} м², 3 поверх з 5.`,
    price: getPrice(sequenceNumber),
    currency: 'USD',
  };
}

/**
 * Sends payloads to the collectors in rotation, and retries each under its idempotency key until a collector accepts
 * it. Each payload has two image URLs, or an upload.
 * @param options.urls URLs of the collectors, which may change. Empty URLs are skipped.
 * @param options.imageHost URL of the image host. Without it, payloads have neither images nor uploads.
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
  const result = {
    /** Raw record IDs of accepted payloads, by idempotency key. */
    acceptedIds: new Map<string, number>(),
    /** Raw record IDs of processed forms, by idempotency key. */
    uploadedIds: new Map<string, number>(),
    unansweredCount: 0,
    unavailableCount: 0,
    unexpectedResponses: [] as string[],
  };
  const stopController = new AbortController();
  let sentCount = 0;

  async function send(
    url: string,
    key: string,
    { body, isForm }: { body: string | FormData; isForm: boolean },
  ): Promise<boolean> {
    try {
      const response = await fetch(`${url}/api/v1/ingest${isForm ? '/with-images' : ''}`, {
        method: 'POST',
        headers: { 'idempotency-key': key, ...(!isForm && { 'content-type': 'application/json' }) },
        body,
        signal: AbortSignal.timeout(isForm ? UPLOAD_TIMEOUT_MS : TIMEOUT_MS),
      });
      const responseBody = (await response.json()) as { raw_id: number; code: string };
      if (response.ok) {
        onAccepted?.(url, response.headers);
        (isForm ? result.uploadedIds : result.acceptedIds).set(key, responseBody.raw_id);
        return true;
      }
      if (OUTAGE_CODES.has(responseBody.code)) result.unavailableCount += 1;
      else result.unexpectedResponses.push(`${response.status} ${JSON.stringify(responseBody)}`);
    } catch {
      result.unansweredCount += 1;
    }
    return false;
  }

  async function createRequest(
    sequenceNumber: number,
  ): Promise<{ body: string | FormData; isForm: boolean }> {
    if (imageHost !== undefined && sequenceNumber % UPLOAD_INTERVAL === 0) {
      const payload = {
        ...createLoadPayload(getUploadSource(source), sequenceNumber),
        external_id: String(sequenceNumber),
      };
      const colour = `#${sequenceNumber.toString(16).padStart(6, '0')}`;
      const bytes = await createImage('png', { width: 16, height: 12, colour });
      const form = createForm(payload, [{ name: 'a.png', bytes: Uint8Array.from(bytes) }]);
      return { body: form, isForm: true };
    }
    const payload = createLoadPayload(source, sequenceNumber);
    const names = imageHost === undefined ? [] : [payload.external_id, sequenceNumber];
    const image_urls = names.map((name) => `${imageHost}/${source}-${name}.png`);
    return { body: JSON.stringify({ ...payload, image_urls }), isForm: false };
  }

  async function sendRepeatedly(): Promise<void> {
    while (!stopController.signal.aborted) {
      const sequenceNumber = (sentCount += 1);
      const request = await createRequest(sequenceNumber);
      for (let attempt = sequenceNumber; ; attempt += 1) {
        const url = urls[attempt % urls.length] ?? '';
        if (url !== '' && (await send(url, getKey(source, sequenceNumber), request))) break;
        await sleep(PAUSE_MS);
      }
    }
  }

  const senderLoops = Promise.all(Array.from({ length: connections }, sendRepeatedly));
  return {
    result,
    /** Stops after all sent payloads are accepted. */
    async stop() {
      stopController.abort();
      await senderLoops;
      return result;
    },
  };
}

type LoadResult = ReturnType<typeof startIngest>['result'];

const SENDER_COUNT = 12;
/** Number of payloads to be accepted before, between and after faults. */
const PAYLOADS_PER_PHASE = getRepetitions({ soak: 60, ci: 20 });
/** Time limit that exceeds the lease of a lost job and the wait for the next sweep. */
const LIMIT_MS = 60_000;
const DUPLICATES_LIMIT_MS = 180_000;

/** Starts a load on collectors. */
export async function startLoad(
  collectors: { urls: string[]; imageHost: string; watch: () => Promise<() => Promise<void>> },
  db: Kysely<Tables>,
  source: string,
) {
  const waitUntilResourcesAreFree = await collectors.watch();
  const ingest = startIngest(source, { ...collectors, connections: SENDER_COUNT });
  const { result } = ingest;
  return {
    result,
    async untilMoreAccepted(): Promise<void> {
      const target = result.acceptedIds.size + PAYLOADS_PER_PHASE;
      await until('payloads to be accepted', () => result.acceptedIds.size >= target, LIMIT_MS);
    },
    async untilInProgress(): Promise<void> {
      const processingQuery = db
        .selectFrom('raw_data')
        .select('id')
        .where('source_slug', '=', source)
        .where('status', '=', 'processing')
        .limit(1);
      await until('jobs to be in progress', () => processingQuery.executeTakeFirst(), LIMIT_MS);
    },
    /** Ends the load, and waits until all jobs and searches for duplicates are done. */
    async end(): Promise<void> {
      await ingest.stop();
      await waitUntilEnded(db, LIMIT_MS);
      const dueMarksQuery = db
        .selectFrom('duplicate_marks')
        .select('id')
        .where(sql<boolean>`claimed_until is null or claimed_until < now()`)
        .limit(1);
      const isDone = async () => (await dueMarksQuery.executeTakeFirst()) === undefined;
      await until('duplicates to be found', isDone, DUPLICATES_LIMIT_MS);
    },
    /** Checks the stored payloads and images, and waits until all resources are free. */
    async checkOutcome(context: TestContext, { maxAttempts = 1 } = {}): Promise<void> {
      const counts = await checkIngest(db, source, result, maxAttempts);
      const { uploadedIds, unavailableCount, unansweredCount } = result;
      context.diagnostic(
        `${counts}, ${uploadedIds.size} uploads, ${unavailableCount} outages, ${unansweredCount} without a response`,
      );
      await waitUntilResourcesAreFree();
    },
  };
}

/** Waits until all jobs have ended. */
export async function waitUntilEnded(db: Kysely<Tables>, limitMs: number): Promise<void> {
  await until('all payloads to end', async () => (await countUnfinished(db)) === 0, limitMs);
}

/** Counts the payloads in the queue and in progress. */
export async function countUnfinished(db: Kysely<Tables>): Promise<number> {
  const { rows } = await sql<{ n: number }>`select count(*) as n from raw_data
    where status in ('pending', 'processing')`.execute(db);
  return rows[0]?.n ?? 0;
}

/**
 * Checks that each accepted payload is stored once, that its job ended `completed` or `invalid` without an open claim,
 * and that the current payload of each listing is the newest completed one.
 * @returns The counts as numbers and as text for a diagnostic.
 */
export async function checkCounts(
  db: Kysely<Tables>,
  acceptedIds: readonly number[],
  source?: string,
): Promise<{ counts: string; invalidCount: number; completedCount: number }> {
  const matchesSource = source === undefined ? sql`true` : sql`source_slug = ${source}`;
  const { rows } = await sql<Record<string, number> & { invalid: number; completed: number }>`
    with raw as materialized (select * from raw_data where ${matchesSource}),
    newest as (
      select source_slug, external_id, max(id) as raw_id from raw
      where status = 'completed' group by 1, 2)
    select count(*) as stored,
      count(*) filter (where id = any (${acceptedIds}::bigint[])) as known,
      count(*) filter (where status in ('pending', 'processing')) as unfinished,
      count(*) filter (where status = 'completed' and error is null and listing_id is not null)
        as completed,
      count(*) filter (where status = 'invalid' and error ->> 'code' = 'not_a_listing') as invalid,
      count(*) filter (where claimed_by is not null or lease_expires_at is not null) as claimed,
      (select count(*) from property_listings where ${matchesSource}) as listings,
      (select count(*) from listing_payloads join newest using (source_slug, external_id, raw_id))
        as current,
      (select count(*) from newest) as expected
    from raw`.execute(db);
  const [countRow] = rows;
  assert.ok(countRow !== undefined);
  const { invalid, completed, expected } = countRow;
  assert.deepEqual(countRow, {
    stored: acceptedIds.length,
    known: new Set(acceptedIds).size,
    unfinished: 0,
    completed: acceptedIds.length - invalid,
    invalid,
    claimed: 0,
    listings: expected,
    current: expected,
    expected,
  });
  const counts = `${acceptedIds.length} accepted and stored, 0 lost, 0 doubled, ${completed} completed, ${invalid} invalid`;
  return { counts, invalidCount: invalid, completedCount: completed };
}

/** Checks that the payloads of a load are completed with all images. Returns the counts as text. */
async function checkIngest(
  db: Kysely<Tables>,
  source: string,
  { unexpectedResponses, acceptedIds, uploadedIds }: LoadResult,
  maxAttempts: number,
): Promise<string> {
  assert.deepEqual(unexpectedResponses, []);
  const rawRecords = await findRawRecords(db, source);
  assert.deepEqual(
    new Map(rawRecords.map(({ idempotency_key: key, id }) => [key, id])),
    acceptedIds,
  );
  const { counts, invalidCount } = await checkCounts(db, [...acceptedIds.values()], source);
  assert.equal(invalidCount, 0);
  const highestAttempts = Math.max(...rawRecords.map((rawRecord) => rawRecord.attempts));
  assert.ok(highestAttempts <= maxAttempts, `an outage cost a job ${highestAttempts} attempts`);
  // Each listing has a constant image, and an image of its newest payload.
  assert.deepEqual(await countImages(db, source), {
    listings: new Set(rawRecords.map(({ external_id: id }) => id)).size,
    images: 2,
  });

  assert.ok(uploadedIds.size > 0);
  const formRecords = await findRawRecords(db, getUploadSource(source));
  assert.deepEqual(
    formRecords.filter(({ status }) => status === 'completed').map(({ id }) => id),
    [...uploadedIds.values()].toSorted((left, right) => left - right),
  );
  for (const { status, error } of formRecords) {
    const isExpected = error?.code === 'interrupted' || error?.code === 'lease_lost';
    assert.ok(status === 'completed' || (status === 'failed' && isExpected), error?.code);
  }
  const images = await countImages(db, getUploadSource(source));
  assert.deepEqual(images, { listings: uploadedIds.size, images: 1 });
  return counts;
}

function findRawRecords(db: Kysely<Tables>, source: string) {
  return db
    .selectFrom('raw_data')
    .select(['idempotency_key', 'id', 'external_id', 'attempts', 'status', 'error'])
    .where('source_slug', '=', source)
    .orderBy('id')
    .execute();
}

/** Counts the listings with described images, and the images of each listing. */
async function countImages(db: Kysely<Tables>, source: string) {
  const rows = await db
    .selectFrom('listing_images')
    .innerJoin('property_listings', 'property_listings.id', 'listing_images.listing_id')
    .innerJoin('images', 'images.sha256', 'listing_images.sha256')
    .select(['listing_id', (eb) => eb.fn.countAll<number>().as('images')])
    .where('source_slug', '=', source)
    .where('described_by', 'is not', null)
    .groupBy('listing_id')
    .execute();
  const [images, ...otherCounts] = new Set(rows.map((row) => row.images));
  assert.deepEqual(otherCounts, [], 'all listings have the same number of images');
  return { listings: rows.length, images };
}
