import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openFolder, exchange, until, getRepetitions } from '@oselya/testing';
import { sql } from 'kysely';
import { mapParallel } from '../../src/async/concurrency.ts';
import { PayloadSchema } from '../../src/ingest/payload.ts';
import {
  createSimilarSearchRequestSchema,
  fulltextSearchRequestSchema,
} from '../../src/search/schemas.ts';
import {
  readDocumentedRoutes,
  createForm,
  sendForm,
  startCollector,
} from '../support/collector.ts';
import { startHostileImages } from '../support/hostile-images.ts';
import { createImage } from '../support/images.ts';
import {
  DIMENSIONS,
  openDatabase,
  createPayload,
  store,
  waitUntilResourcesAreFree,
  createResourceLeakCheck,
  updateRawRecord,
} from '../support/pipeline.ts';
import { createHostileBodies, createHostileRequests } from './hostile-input.ts';
import { checkCounts, waitUntilEnded } from './load.ts';

const database = await openDatabase();
const { db } = database;

const PAYLOAD_COUNT = getRepetitions({ soak: 10_000, ci: 150 });
const SEARCH_COUNT = getRepetitions({ soak: 1000, ci: 50 });
const REQUEST_COUNT = database.engine === 'postgres' ? 200 : 80;
const MAX_PARALLEL_REQUESTS = 32;
const SEED = 20_261_121;
/** Maximum number of unexpected responses that a failure message lists. */
const MAX_SHOWN = 5;
/** Time limit for draining the queue after the last request. */
const LIMIT_MS = 300_000;
const REJECTIONS = [400, 413, 422];
/** Share of payloads with an image at the hostile host. */
const IMAGE_SHARE = 1 / 3;

const host = await startHostileImages();
const folder = await openFolder();
const UNLIMITED = { COLLECTOR_INGEST_PER_MINUTE: '0', COLLECTOR_FULLTEXT_PER_MINUTE: '0' };
const collector = await startCollector(database, {
  DATA_DIR: folder,
  SSRF_ALLOW: host.address,
  COLLECTOR_WORKERS: '8',
  ...UNLIMITED,
});

/** Database of a collector without a worker: only requests change its rows. */
const idleDatabase = await openDatabase();
const idleFolder = await openFolder();
const idleCollector = await startCollector(idleDatabase, {
  DATA_DIR: idleFolder,
  COLLECTOR_WORKER: 'false',
  ...UNLIMITED,
});

/** Statuses that any request may get, due to unknown routes, malformed requests or `Expect` headers. */
const COMMON_STATUSES = new Set([100, 302, 400, 404, 405, 415, 421, 431]);

/** Matches the content type of a problem or its HTML page. */
const PROBLEM_PATTERN = /^content-type: (application\/problem\+json|text\/html)/im;

/** Starts counting written and deleted rows, and returns a function that reads the count. */
async function watchRows(): Promise<() => Promise<number>> {
  await sql`create sequence changed_rows`.execute(idleDatabase.db);
  await sql`create function count_row() returns trigger language plpgsql as
    $$ begin perform nextval('changed_rows'); return null; end $$`.execute(idleDatabase.db);
  const { rows } = await sql<{ name: string }>`
    select tablename as name from pg_tables where schemaname = 'public'`.execute(idleDatabase.db);
  assert.ok(rows.length > 10);
  for (const { name } of rows) {
    await sql`create trigger count_row after insert or update or delete on ${sql.table(name)}
      for each row execute function count_row()`.execute(idleDatabase.db);
  }
  return async () => {
    const { rows: counts } = await sql<{ n: number }>`
      select case when is_called then last_value else 0 end::integer as n
      from changed_rows`.execute(idleDatabase.db);
    return counts[0]?.n ?? 0;
  };
}

/** Stores an API key, a failed payload and then a listing with an image, for all routes. Returns the image's hash. */
async function storeData(): Promise<string> {
  const apiKey = { id: '1', name: 'scraper', key_hash: 'no key', scopes: ['ingest'] };
  await idleDatabase.db.insertInto('api_keys').values(apiKey).execute();
  const id = await store(idleDatabase.db, createPayload());
  await updateRawRecord(idleDatabase.db, id, { status: 'failed' });
  const bytes = Uint8Array.from(await createImage('png', { colour: 'orchid' }));
  const form = createForm(createPayload(), [{ name: 'orchid.png', bytes }]);
  const sha256 = (await sendForm(idleCollector.url, form)).body.images[0]?.sha256;
  await sendForm(idleCollector.url, createForm(createPayload({ external_id: 'second' }), []));
  assert.ok(sha256 !== undefined);
  return sha256;
}

const storedImage = await storeData();
const countChangedRows = await watchRows();
const routes = await readDocumentedRoutes(idleCollector);
let changeCount = 0;

type Answer = Awaited<ReturnType<typeof collector.post>>;

/** Sends bodies, checks that each response is a success or a problem, and counts the responses by status. */
async function sendAll(
  path: string,
  bodies: readonly string[],
  { success, rejections = REJECTIONS }: { success: number; rejections?: readonly number[] },
  onSuccess: (response: Answer) => void = () => undefined,
): Promise<Map<number, number>> {
  const counts = new Map<number, number>();
  const violations: string[] = [];
  await mapParallel(bodies, MAX_PARALLEL_REQUESTS, async (body) => {
    const response = await collector.post(path, body);
    counts.set(response.status, (counts.get(response.status) ?? 0) + 1);
    if (response.status === success) onSuccess(response);
    else if (!rejections.includes(response.status) || !isProblem(response)) {
      violations.push(
        `${response.status} ${response.text.slice(0, 300)} for ${body.slice(0, 500)}`,
      );
    }
  });
  assert.deepEqual(violations.slice(0, MAX_SHOWN), [], `${violations.length} unexpected responses`);
  return counts;
}

function isProblem({ status, headers, json }: Answer): boolean {
  const { status: bodyStatus, code, detail } = json<Record<string, unknown>>();
  return (
    headers.get('content-type')?.startsWith('application/problem+json') === true &&
    bodyStatus === status &&
    typeof code === 'string' &&
    typeof detail === 'string'
  );
}

const pickOne = <Item>(random: () => number, ...items: readonly Item[]) =>
  items[Math.floor(random() * items.length)];

/** Describes a flat of a random size, since identical sizes slow down the search for duplicates. */
const createDescription = (random: () => number) =>
  `Продам квартиру у Львові, ${Math.floor(20 + random() * 400)} м².`;

/** Creates a valid payload of a random listing. */
const createGoodPayload = (random: () => number) => ({
  source_slug: pickOne(random, 'hostile', 'h-2'),
  external_id: String(Math.floor(random() * 500)),
  description: pickOne(random, createDescription(random), 'Ремонтуємо телефони.'),
  title: pickOne(random, 'Квартира', 'Дім'),
  price: Math.floor(random() * 100_000),
  currency: 'USD',
  ...(random() < IMAGE_SHARE ? { image_urls: [host.createRandomUrl(random)] } : {}),
});

/** Checks that usable images are stored and all others are recorded with an error. Returns a summary. */
async function checkImages(): Promise<string> {
  const rows = await db
    .selectFrom('listing_images')
    .select(['url', 'sha256', 'error'])
    .where('url', 'like', `${host.url}%`)
    .execute();
  const violations = rows.filter(
    ({ url, sha256, error }) =>
      (sha256 === null) === (error === null) || (sha256 !== null) !== host.isGood(url ?? ''),
  );
  assert.deepEqual(violations.slice(0, MAX_SHOWN), []);
  const storedCount = rows.filter(({ sha256 }) => sha256 !== null).length;
  assert.ok(storedCount > 0 && storedCount < rows.length / 2);
  return `${rows.length} images of ${host.requestCounts.size} behaviours, ${storedCount} stored`;
}

/** Waits until the search for duplicates is done. */
async function waitForDuplicateSearch(): Promise<void> {
  const marksQuery = db.selectFrom('duplicate_marks').select('id').limit(1);
  const isDone = async () => (await marksQuery.executeTakeFirst()) === undefined;
  await until('the duplicates to be found', isDone, LIMIT_MS);
}

const engine = database.engine === 'postgres' ? 'PostgreSQL' : 'the embedded database';

test(`Each of ${PAYLOAD_COUNT} hostile payloads on ${engine} is rejected or ends in one valid state`, async (context) => {
  const bodies = createHostileBodies(PAYLOAD_COUNT, {
    seed: SEED,
    good: createGoodPayload,
    schema: PayloadSchema,
  });
  const acceptedIds: number[] = [];
  const onAccepted = (response: Answer) => {
    acceptedIds.push(response.json<{ raw_id: number }>().raw_id);
  };
  // The first request opens resources that remain open, so it precedes the leak check.
  const firstBody = JSON.stringify(createPayload({ image_urls: [`${host.url}/0/0`] }));
  await sendAll('/api/v1/ingest', [firstBody], { success: 202 }, onAccepted);
  await waitUntilEnded(db, LIMIT_MS);
  await waitForDuplicateSearch();
  const checkLeaks = await createResourceLeakCheck({ database, dataDir: folder, host });
  const statusCounts = await sendAll('/api/v1/ingest', bodies, { success: 202 }, onAccepted);
  await waitUntilEnded(db, LIMIT_MS);
  const { counts, invalidCount, completedCount } = await checkCounts(db, acceptedIds);
  const { rows: imagePayloads } = await sql`select from raw_data
    where payload ->> 'image_urls' like ${`%${host.url}%`}`.execute(db);
  assert.ok(imagePayloads.length > acceptedIds.length / 4, `${imagePayloads.length} with images`);
  assert.ok(invalidCount > 0 && completedCount > PAYLOAD_COUNT / 20);
  assert.ok((statusCounts.get(422) ?? 0) > PAYLOAD_COUNT / 10 && (statusCounts.get(400) ?? 0) > 0);
  const statuses = JSON.stringify(Object.fromEntries(statusCounts));
  context.diagnostic(`responses ${statuses}, ${counts}, ${await checkImages()}`);
  await waitForDuplicateSearch();
  await waitUntilResourcesAreFree({ database, servers: [host], folder });
  await checkLeaks();
});

const createGoodSearch = (random: () => number) => ({
  query: pickOne(random, 'квартира', 'квартира Львів', 'дім'),
  limit: pickOne(random, 1, 5),
  highlight: random() < 0.5,
  fold_duplicates: random() < 0.5,
});
const createGoodSimilar = (random: () => number) => ({
  query: pickOne(random, 'flat', 'дім'),
  limit: 3,
});

for (const [search, good, schema] of [
  ['fulltext', createGoodSearch, fulltextSearchRequestSchema],
  ['hybrid', createGoodSearch, fulltextSearchRequestSchema],
  ['similar', createGoodSimilar, createSimilarSearchRequestSchema(DIMENSIONS)],
] as const) {
  test(`${SEARCH_COUNT} hostile ${search} searches on ${engine} are answered or rejected`, async (context) => {
    const bodies = createHostileBodies(SEARCH_COUNT, { seed: SEED, good, schema });
    const statusCounts = await sendAll(`/api/v1/search/${search}`, bodies, {
      success: 200,
      // The listing may be unknown or have no embedding.
      rejections: search === 'similar' ? [...REJECTIONS, 404, 409] : REJECTIONS,
    });
    context.diagnostic(`responses ${JSON.stringify(Object.fromEntries(statusCounts))}`);
    assert.ok(
      (statusCounts.get(200) ?? 0) > SEARCH_COUNT / 10 &&
        (statusCounts.get(422) ?? 0) > SEARCH_COUNT / 10,
    );
    await waitUntilResourcesAreFree({ database, folder });
  });
}

for (const route of routes) {
  const { method, path, errorCodesByStatus } = route;
  test(`${REQUEST_COUNT} hostile requests to ${method} ${path} are answered, or rejected without a change`, async (context) => {
    const requests = createHostileRequests(route, {
      count: REQUEST_COUNT,
      seed: SEED,
      sha256: storedImage,
    });
    const statuses: Record<number, number> = {};
    for (const [index, request] of requests.entries()) {
      const { status, text } = await exchange(idleCollector.url, request);
      const report = `${request.subarray(0, 2000).toString()}\n${text.slice(0, 1000)}`;
      assert.ok(status < 500, report);
      assert.ok(errorCodesByStatus[status] !== undefined || COMMON_STATUSES.has(status), report);
      if (index === 0) assert.ok(status < 300, report);
      if (status >= 400) assert.match(text, PROBLEM_PATTERN, report);
      statuses[status] = (statuses[status] ?? 0) + 1;
      const currentCount = await countChangedRows();
      // A payload that is not a listing is stored as invalid, so rows change despite the error.
      const isStored = text.includes('"code":"not_a_listing"');
      if (status >= 400 && !isStored)
        assert.equal(currentCount, changeCount, `rows have changed: ${report}`);
      changeCount = currentCount;
    }
    context.diagnostic(JSON.stringify(statuses));
    await waitUntilResourcesAreFree({ database: idleDatabase, folder: idleFolder });
  });
}
