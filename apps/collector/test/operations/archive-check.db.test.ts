import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { createMetrics, type Metrics } from '../../src/metrics.ts';
import { createArchiveCheck } from '../../src/operations/archive-check.ts';
import { createSafeFetch, type SafeFetch } from '../../src/safe-fetch/fetch.ts';
import { until } from '@oselya/testing';
import { processPayload, startCollector } from '../support/collector.ts';
import { startServer } from '../support/images.ts';
import { openDatabase, log, createPayload, waitForBlockedStatement } from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const collector = await startCollector(database, { SSRF_ALLOW: '127.0.0.1' });
let siteStatus = 200;
let siteRequestCount = 0;
const site = await startServer((_request, response) => {
  siteRequestCount += 1;
  response.writeHead(siteStatus).end('a page');
});

async function checkArchive(body?: object) {
  const { status, text } = await collector.post('/api/v1/admin/archive-check', body);
  assert.equal(status, 200, text);
  return JSON.parse(text) as unknown;
}

const ingestListing = async (payload: object) =>
  (await processPayload(collector, payload)).listing_id;

const readListing = async (id: number) =>
  (await collector.get(`/api/v1/listings/${id}`)).json<{ archived_at: string | null }>();

const searchIds = async (query: string) =>
  (await collector.post('/api/v1/search/fulltext', { query }))
    .json<{ items: { listing: { listing_id: number } }[] }>()
    .items.map((item) => item.listing.listing_id);

test('An archived listing is hidden from searches and restored by its payload', async () => {
  const payload = createPayload({ title: 'Будинок із садом', url: `${site.url}/house` });
  const id = await ingestListing(payload);
  const unchangedResult = { checked: 1, archived: 0, unreachable: 0 };
  assert.deepEqual(await checkArchive(), unchangedResult);
  siteStatus = 410;
  assert.deepEqual(await checkArchive(), unchangedResult);
  assert.deepEqual(await checkArchive({}), unchangedResult);
  assert.equal((await readListing(id)).archived_at, null, 'an hour has not passed');
  assert.deepEqual(await searchIds('садом'), [id]);
  await ageCheck(id, 0.9);
  assert.deepEqual(await checkArchive({}), unchangedResult);
  await ageCheck(id, 0.2);
  assert.deepEqual(await checkArchive({}), { ...unchangedResult, archived: 1 });
  assert.ok((await readListing(id)).archived_at);
  assert.deepEqual(await searchIds('садом'), []);

  await ingestListing(payload);
  assert.equal((await readListing(id)).archived_at, null);
  assert.deepEqual(await searchIds('садом'), [id]);
  assert.deepEqual(
    await checkArchive({ min_interval_seconds: 0 }),
    unchangedResult,
    'the checks begin anew',
  );
  assert.deepEqual(await checkArchive({ min_interval_seconds: 0 }), {
    ...unchangedResult,
    archived: 1,
  });
  const history = (await collector.get(`/api/v1/listings/${id}/history`)).json<unknown[]>();
  assert.equal(history.length, 1, 'archiving does not change the listing');
  const { text } = await collector.get('/metrics');
  assert.match(text, /collector_archive_checks_total\{outcome="archived"\} 2\n/);
});

test('Invalid requests are rejected', async () => {
  for (const body of [
    { limit: 0 },
    { limit: 1001 },
    { limit: '5' },
    { source_slug: 'No Slug' },
    { min_interval_seconds: -1 },
    { min_interval_seconds: 1e12 },
    { more: 1 },
    [],
  ]) {
    const { status } = await collector.post('/api/v1/admin/archive-check', body);
    assert.equal(status, 422, JSON.stringify(body));
  }
  assert.equal((await collector.post('/api/v1/admin/archive-check', '{"limit":')).status, 400);
});

const [PRESENT_STATUS, GONE_STATUS, UNAVAILABLE_STATUS] = [200, 404, 503];
type Respond = (url: string, signal: AbortSignal) => Promise<number>;

/** Creates listings, each with a URL, and returns their IDs. */
async function createListings(source: string, count = 1): Promise<number[]> {
  await sql`insert into sources (slug) values (${source})`.execute(db);
  const { rows } = await sql<{ id: number }>`
    with listing as (
      insert into property_listings (source_slug, external_id, url, description, search_text)
      select ${source}, n::text, 'https://' || ${source}::text || '.test/' || n, 'Квартира', ''
      from generate_series(1, ${count}) as n
      returning id, source_slug, external_id),
    payload as (
      insert into listing_payloads (source_slug, external_id, raw_id)
      select source_slug, external_id, 1 from listing)
    select id from listing order by id`.execute(db);
  return rows.map(({ id }) => id);
}

/** Simulates a further payload for each listing of a source. */
async function markSentAgain(source: string): Promise<void> {
  await sql`update listing_payloads set raw_id = raw_id + 1 where source_slug = ${source}`.execute(
    db,
  );
}

const readListingRow = (id: number) =>
  db.selectFrom('property_listings').selectAll().where('id', '=', id).executeTakeFirstOrThrow();

const readCheck = (id: number) =>
  db.selectFrom('listing_checks').selectAll().where('listing_id', '=', id).executeTakeFirst();

/** Backdates the check of a listing. */
async function ageCheck(id: number, hours: number): Promise<void> {
  await sql`update listing_checks set
      gone_since = gone_since - ${hours} * interval '1 hour',
      checked_at = checked_at - ${hours} * interval '1 hour'
    where listing_id = ${id}`.execute(db);
}

/** Counts the checks by outcome. */
async function getOutcomes({ archiveChecks }: Metrics) {
  const { values } = await archiveChecks.get();
  return Object.fromEntries(values.map(({ labels, value }) => [labels.outcome, value]));
}

/** Creates the archive check of one source with scripted responses, and records its requests. */
function createSourceCheck(
  source: string,
  respond: Respond,
  options: Partial<Parameters<typeof createArchiveCheck>[0]> = {},
) {
  const metrics = createMetrics(new Registry());
  const requestedUrls: string[] = [];
  const check = createArchiveCheck({
    db,
    fetch: async (url, { signal }) => {
      requestedUrls.push(url);
      const status = await respond(url, signal);
      // The check only reads the status and closes the response.
      return { status, close: () => Promise.resolve() } as Awaited<ReturnType<SafeFetch>>;
    },
    metrics,
    log,
    limits: { parallel: 4, perHost: 4, pauseMs: 0 },
    ...options,
  });
  const run = (
    filter: { limit?: number; minIntervalSeconds?: number; notWithinHours?: number } = {},
  ) => check({ limit: 100, minIntervalSeconds: 3600, source, ...filter });
  return { run, requestedUrls, metrics };
}

const respondWith = (status: number) => () => Promise.resolve(status);

test('Another answer restarts the two checks, and no answer changes nothing', async () => {
  const [id = 0] = await createListings('changing');
  const countArchived = async (status: number) => {
    const result = await createSourceCheck('changing', respondWith(status)).run();
    await ageCheck(id, 2);
    return result.archived;
  };
  assert.equal(await countArchived(GONE_STATUS), 0);
  assert.equal(await countArchived(PRESENT_STATUS), 0);
  assert.equal((await readCheck(id))?.gone_since, null);
  assert.equal(await countArchived(GONE_STATUS), 0);
  const goneSince = (await readCheck(id))?.gone_since;
  const { run } = createSourceCheck('changing', respondWith(UNAVAILABLE_STATUS));
  assert.deepEqual(await run(), { checked: 1, archived: 0, unreachable: 1 });
  assert.deepEqual((await readCheck(id))?.gone_since, goneSince);
  assert.equal(await countArchived(GONE_STATUS), 1);
});

for (const [time, source] of [
  ['between two checks', 'between'],
  ['during a check', 'during'],
] as const) {
  test(`A payload that arrives ${time} keeps its listing`, async () => {
    const [id = 0] = await createListings(source);
    const { run } = createSourceCheck(source, async () => {
      if (source === 'during') await markSentAgain(source);
      return GONE_STATUS;
    });
    for (let checkCount = 0; checkCount < 3; checkCount += 1) {
      assert.deepEqual(await run(), { checked: 1, archived: 0, unreachable: 0 });
      await ageCheck(id, 2);
      if (source === 'between') await markSentAgain(source);
    }
    assert.equal((await readListingRow(id)).archived_at, null);
  });
}

if (!database.isExclusive) {
  test('A listing that is archived while its payload arrives again leaves the archive', async () => {
    const payload = createPayload({ source_slug: 'concurrent', url: 'https://gone.test/' });
    const id = await ingestListing(payload);
    await createSourceCheck('concurrent', respondWith(GONE_STATUS)).run();
    await ageCheck(id, 2);
    const repeatedIngest = await db.transaction().execute(async (trx) => {
      const { run } = createSourceCheck('concurrent', respondWith(GONE_STATUS), { db: trx });
      assert.equal((await run()).archived, 1);
      const ingest = ingestListing(payload);
      await waitForBlockedStatement(db);
      return { ingest };
    });
    assert.equal(await repeatedIngest.ingest, id);
    assert.equal((await readListingRow(id)).archived_at, null);
  });
}

test('Unchecked listings come first, then the listings checked longest ago', async () => {
  const [, secondId = 0] = await createListings('order', 3);
  const { run, requestedUrls } = createSourceCheck('order', respondWith(PRESENT_STATUS));
  await run({ limit: 1 });
  await run({ limit: 1 });
  await ageCheck(secondId, 5);
  await run({ limit: 2 });
  await run({ limit: 1 });
  assert.deepEqual(
    requestedUrls.map((url) => url.at(-1)),
    ['1', '2', '3', '2', '1'],
  );
});

test('An address is not checked again within the hours of the run', async () => {
  const [id = 0] = await createListings('due');
  const { run, requestedUrls } = createSourceCheck('due', respondWith(PRESENT_STATUS));
  await run({ notWithinHours: 24 });
  assert.equal(requestedUrls.length, 0, 'the listing has just come into being');
  await sql`update property_listings set created_at = now() - interval '25 hours'
    where id = ${id}`.execute(db);
  await run({ notWithinHours: 24 });
  await ageCheck(id, 23);
  await run({ notWithinHours: 24 });
  assert.equal(requestedUrls.length, 1);
  await ageCheck(id, 2);
  await run({ notWithinHours: 24 });
  assert.equal(requestedUrls.length, 2);
});

test('Concurrent runs check each address once and hold no connection during the requests', async () => {
  await createListings('together', 60);
  const responsesAllowed = Promise.withResolvers<void>();
  const { run, requestedUrls } = createSourceCheck('together', async () => {
    await responsesAllowed.promise;
    return PRESENT_STATUS;
  });
  const runs = Array.from({ length: 4 }, () => run({ limit: 60 }));
  await until('all listings to be claimed', async () => (await countClaimed('together')) === 60);
  await until('no connection to be held', () => {
    return database.pool.totalCount === database.pool.idleCount;
  });
  responsesAllowed.resolve();
  const results = await Promise.all(runs);
  assert.equal(
    results.reduce((sum, { checked }) => sum + checked, 0),
    60,
  );
  assert.deepEqual([requestedUrls.length, new Set(requestedUrls).size], [60, 60]);
});

async function countClaimed(source: string): Promise<number> {
  const { rows } = await sql`select from listing_checks
    join property_listings on id = listing_id
    where source_slug = ${source} and claimed_until > now()`.execute(db);
  return rows.length;
}

test('An address that a run did not reach is requested after its claim', async () => {
  const [id = 0] = await createListings('late', 6);
  const { run } = createSourceCheck('late', respondNever, { deadlineMs: 20 });
  assert.deepEqual(await run(), { checked: 0, archived: 0, unreachable: 0 });
  const check = await readCheck(id);
  assert.equal(check?.checked_at, null);
  await sql`update listing_checks set claimed_until = now() where claimed_until > now()`.execute(
    db,
  );
  const nextCheck = createSourceCheck('late', respondWith(PRESENT_STATUS));
  assert.equal((await nextCheck.run()).checked, 6);
});

/** Never responds. Rejects when the check aborts the request. */
const respondNever: Respond = async (_url, signal) => {
  await once(signal, 'abort');
  throw signal.reason;
};

test('Each HTTP status means gone, present or unknown', async () => {
  await createListings('statuses', 15);
  const statuses = [404, 410, 200, 204, 400, 401, 403, 451, 408, 425, 429, 500, 502, 503, 504];
  const { run, metrics } = createSourceCheck('statuses', (url) =>
    Promise.resolve(statuses[Number(url.split('/').at(-1)) - 1] ?? 0),
  );
  assert.deepEqual(await run(), { checked: 15, archived: 0, unreachable: 7 });
  assert.deepEqual(await getOutcomes(metrics), { gone: 2, present: 6, unreachable: 7 });
});

test('A silent address is unreachable, and a forbidden address is not requested', async () => {
  await createListings('silent');
  const { run } = createSourceCheck('silent', respondNever, { timeoutMs: 20 });
  assert.deepEqual(await run(), { checked: 1, archived: 0, unreachable: 1 });
  await createListings('inside');
  await sql`update property_listings set url = ${`${site.url}/inside`}
    where source_slug = 'inside'`.execute(db);
  const requestCountBefore = siteRequestCount;
  const guardedCheck = createArchiveCheck({
    db,
    fetch: createSafeFetch({ allow: [] }),
    metrics: createMetrics(new Registry()),
    log,
  });
  const options = { limit: 1, minIntervalSeconds: 0, source: 'inside' };
  assert.deepEqual(await guardedCheck(options), { checked: 1, archived: 0, unreachable: 1 });
  assert.equal(siteRequestCount, requestCountBefore);
});

test('A listing with a new URL or back from the archive is checked', async () => {
  const [id = 0] = await createListings('changed');
  const { run, requestedUrls } = createSourceCheck('changed', respondWith(PRESENT_STATUS));
  for (const [hidingChange, restoringChange] of [
    [sql`url = null`, sql`url = 'https://new.test/'`],
    [sql`archived_at = now()`, sql`archived_at = null`],
  ] as const) {
    await sql`update property_listings set ${hidingChange} where id = ${id}`.execute(db);
    await sql`delete from listing_checks where listing_id = ${id}`.execute(db);
    assert.equal((await run()).checked, 0);
    await sql`update property_listings set ${restoringChange} where id = ${id}`.execute(db);
    await run();
  }
  assert.deepEqual(requestedUrls, ['https://new.test/', 'https://new.test/']);
});
