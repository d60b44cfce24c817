import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { ModelError } from '@oselya/model';
import { StageTimeoutError } from '../../src/pipeline/outcome.ts';
import { claimForReprocessing } from '../../src/queue/claim.ts';
import { rescueJobs } from '../../src/queue/job-writes.ts';
import { startCollector } from '../support/collector.ts';
import { createOutageError, watchDatabase } from '@oselya/testing/database';
import { createBetterModel, openReprocess, readAll, filterExtracted } from './harness.ts';
import {
  createCountingModel,
  createHarness,
  findListingPayloads,
  findListing,
  log,
  openDatabase,
  createPayload,
  readRawRecord,
  readSnapshots,
  store,
  readAllRows,
  readEnrichments,
} from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const collector = await startCollector(database, { COLLECTOR_WORKER: 'false' });
const openWithModel = (model: ReturnType<typeof createCountingModel>) => openReprocess(db, model);

beforeEach(async () => {
  await db.deleteFrom('raw_data').execute();
  await db.deleteFrom('property_listings').execute();
});

/** Extracts the only listing again. */
async function readOne(model: ReturnType<typeof createCountingModel>) {
  const reprocess = openWithModel(model);
  const [reading] = filterExtracted(await readAll(reprocess));
  assert.ok(reading);
  return { reprocess, reading };
}

test('An extraction shows the changes and stores only its cost', async () => {
  const harness = createHarness(db);
  await harness.process(createPayload({ external_id: 'a' }));
  await harness.process(createPayload({ external_id: 'b', rooms: 3 }));
  const rowsBefore = await readAllRows(db);
  const model = createBetterModel();
  const outcomes = filterExtracted(await readAll(openWithModel(model)));
  assert.deepEqual(
    outcomes.map(({ changes }) => changes),
    [{ rooms: { from: 2, to: 9 } }, {}],
    "the source's value wins",
  );
  assert.deepEqual(model.calls, { chat: 2, embed: 0 });
  const rowsAfter = await readAllRows(db);
  const getUsages = (rawRecords: typeof rowsBefore.raws) =>
    rawRecords.map(({ model_usage: usage }) => usage);
  for (const [index, usage] of getUsages(rowsAfter.raws).entries()) {
    const earlierUsage = rowsBefore.raws[index]?.model_usage;
    assert.ok(usage && earlierUsage);
    assert.equal(usage.calls, earlierUsage.calls + 1);
    assert.ok(usage.input_tokens > earlierUsage.input_tokens);
  }
  const withoutCost = ({ raws: rawRecords, ...otherRows }: typeof rowsBefore) => ({
    ...otherRows,
    raws: rawRecords.map(({ model_usage: _cost, ...rawRecord }) => rawRecord),
  });
  assert.deepEqual(withoutCost(rowsAfter), withoutCost(rowsBefore));
});

test('An extraction is written without another call to the model', async () => {
  const payload = createPayload();
  const rawRecord = await createHarness(db).process(payload);
  const model = createBetterModel();
  const { reprocess, reading } = await readOne(model);
  assert.deepEqual(await reprocess.write(reading), { outcome: 'written' });
  assert.deepEqual(model.calls, { chat: 1, embed: 1 });
  const listing = await findListing(db, payload);
  assert.equal(listing?.rooms, 9);
  const rawAfter = await readRawRecord(db, rawRecord.id);
  assert.deepEqual(
    [rawAfter.status, rawAfter.attempts, rawAfter.attempt, rawAfter.error, rawAfter.claimed_by],
    ['completed', 1, 2, null, null],
  );
  assert.equal((await findListingPayloads(db, payload))?.completed_hash, rawRecord.content_hash);
  const { provenance } = await readEnrichments(db, listing.id);
  assert.partialDeepStrictEqual(provenance, {
    model: 'better-2026',
    requested_model: 'better',
    raw_id: rawRecord.id,
  });
});

test('A payload that the current model rejects is not extracted again', async () => {
  const harness = createHarness(db);
  const payload = createPayload({ external_id: 'rejected' });
  await harness.process(payload);
  const failedRecord = await harness.process(
    createPayload({ external_id: 'failed', title: 'failed' }),
  );
  const rejectingModel = createBetterModel((read) => {
    if (read.title === 'failed') throw new ModelError('MODEL_TRUNCATED', 'cut off');
    return { is_listing: false, reason: 'A service.' };
  });
  const reprocess = openWithModel(rejectingModel);
  const outdated = reprocess.currentExtractor;
  const listings = await db.selectFrom('property_listings').selectAll().execute();
  assert.equal((await readAll(reprocess, { outdated })).length, 2);
  assert.deepEqual(
    (await readAll(reprocess, { outdated })).map(({ outcome, listingId }) => [outcome, listingId]),
    [['failed', failedRecord.listing_id]],
  );
  assert.deepEqual(await db.selectFrom('property_listings').selectAll().execute(), listings);

  // The same content stays rejected.
  await harness.process(payload);
  assert.equal(await reprocess.count({ outdated }), 1);
  // A rejection counts only for the same model, prompt and payload.
  const otherReprocess = openWithModel({ ...rejectingModel, chatModel: 'another' });
  assert.equal(await otherReprocess.count({ outdated: otherReprocess.currentExtractor }), 2);
  assert.equal(await reprocess.count({ outdated: { ...outdated, promptVersion: 'v0' } }), 2);
  assert.equal(await reprocess.count({}), 2);
  await harness.process({ ...payload, price: 1, currency: 'USD' });
  assert.equal(await reprocess.count({ outdated }), 2);
});

test('The last payload is extracted again, and an archived listing stays archived', async () => {
  const payload = createPayload();
  const harness = createHarness(db);
  await harness.process(payload);
  const lastRecord = await harness.process(payload);
  const archived_at = new Date('2026-01-02T03:04:05Z');
  await db.updateTable('property_listings').set({ archived_at }).execute();
  const { reprocess, reading } = await readOne(createBetterModel());
  assert.equal(reading.rawId, lastRecord.id);
  assert.deepEqual(await reprocess.write(reading), { outcome: 'written' });
  const listing = await findListing(db, payload);
  assert.deepEqual([listing?.rooms, listing?.archived_at], [9, archived_at]);
});

test('Outcomes name missing, rejected and failed payloads and payloads in progress', async () => {
  const harness = createHarness(db);
  for (const external_id of ['gone', 'later', 'pending', 'rejected', 'failed']) {
    await harness.process(createPayload({ external_id, title: external_id }));
  }
  await db.deleteFrom('raw_data').where('external_id', '=', 'gone').execute();
  await db
    .updateTable('raw_data')
    .set({ status: 'pending' })
    .where('external_id', '=', 'pending')
    .execute();
  const model = createBetterModel((read) => {
    if (read.title === 'failed') throw new ModelError('MODEL_TRUNCATED', 'cut off');
    return read.title === 'rejected' ? { is_listing: false, reason: 'A service.' } : {};
  });
  const reprocess = openWithModel(model);
  const outcomes = await readAll(reprocess);
  const summaries = outcomes.map((outcome) => [
    outcome.outcome,
    outcome.outcome === 'not_a_listing'
      ? outcome.reason
      : outcome.outcome === 'failed'
        ? outcome.error.code
        : '',
  ]);
  assert.deepEqual(summaries, [
    ['payload_gone', ''],
    ['read', ''],
    ['in_progress', ''],
    ['not_a_listing', 'A service.'],
    ['failed', 'MODEL_TRUNCATED'],
  ]);
  const rowsBefore = await readAllRows(db);
  // A newer payload arrives between reading and writing.
  await store(db, createPayload({ external_id: 'later' }));
  const [reading] = filterExtracted(outcomes);
  assert.ok(reading);
  assert.deepEqual(await reprocess.write(reading), { outcome: 'changed' });
  assert.deepEqual((await readAllRows(db)).listings, rowsBefore.listings);
});

test('A failure that affects every listing ends the run', async () => {
  const harness = createHarness(db);
  for (let index = 0; index < 20; index += 1) await harness.process(createPayload());
  const rowsBefore = await readAllRows(db);
  // Maximum calls: one per slot; or ten consecutive failures, plus the calls that run ahead (twice the slots).
  for (const [code, status, maxCalls] of [
    ['MODEL_UNREACHABLE', undefined, 4],
    ['MODEL_MISCONFIGURED', undefined, 4],
    ['MODEL_REJECTED', 401, 4],
    ['MODEL_REJECTED', 404, 4],
    ['MODEL_REJECTED', 302, 4],
    ['MODEL_REJECTED', 400, 10 + 2 * 4],
  ] as const) {
    const model = createBetterModel(() => {
      throw new ModelError(code, 'no', status === undefined ? {} : { status });
    });
    await assert.rejects(readAll(openWithModel(model)), { code });
    assert.ok(model.calls.chat <= maxCalls, `${code} ${status}: ${model.calls.chat} calls`);
  }
  assert.deepEqual((await readAllRows(db)).listings, rowsBefore.listings);
});

test('A failed embedding leaves the listing written and the payload complete', async () => {
  const payload = createPayload();
  const rawRecord = await createHarness(db).process(payload);
  const model = createBetterModel();
  const { reading } = await readOne(model);
  const createFailure = (failure: ModelError) =>
    openWithModel({ ...model, embed: () => Promise.reject(failure) });
  const tooLongError = new ModelError('MODEL_REJECTED', 'too long', { status: 400 });
  assert.deepEqual(await createFailure(tooLongError).write(reading), {
    outcome: 'incomplete',
    error: tooLongError,
  });
  assert.equal((await findListing(db, payload))?.rooms, 9);
  assert.equal((await readRawRecord(db, rawRecord.id)).status, 'completed');
  const unknownModelError = new ModelError('MODEL_REJECTED', 'no such model', { status: 404 });
  await assert.rejects(createFailure(unknownModelError).write(reading), unknownModelError);
});

test('A write that fails before its first change keeps the payload completed', async () => {
  const payload = createPayload();
  const rawRecord = await createHarness(db).process(payload);
  const { reprocess, reading } = await readOne(createBetterModel());
  const rowsBefore = await readAllRows(db);
  const extraction = { ...reading.extractionRecord.extraction, is_listing: false };
  const brokenReading = {
    ...reading,
    extractionRecord: { ...reading.extractionRecord, extraction },
  };
  assert.deepEqual(await reprocess.write(brokenReading), {
    outcome: 'kept',
    error: new Error(extraction.reason ?? 'The model found no property listing in the payload.'),
  });
  const rawAfter = await readRawRecord(db, rawRecord.id);
  assert.deepEqual(
    [rawAfter.status, rawAfter.error, rawAfter.listing_id],
    ['completed', null, rawRecord.listing_id],
  );
  assert.equal((await findListingPayloads(db, payload))?.completed_hash, rawRecord.content_hash);
  assert.deepEqual((await readAllRows(db)).snapshots, rowsBefore.snapshots);
  assert.equal((await findListing(db, payload))?.rooms, 2);
});

test('A worker continues a write whose result an outage hides', async () => {
  const payload = createPayload();
  const rawRecord = await createHarness(db).process(payload);
  const model = createBetterModel();
  const lossyDb = watchDatabase(db, {
    after(text) {
      if (!text.includes('insert into property_listings')) return;
      throw createOutageError();
    },
  });
  const reprocess = openReprocess(lossyDb, model);
  const [reading] = filterExtracted(await readAll(reprocess));
  assert.ok(reading);
  assert.equal((await reprocess.write(reading)).outcome, 'queued');
  assert.equal((await findListing(db, payload))?.rooms, 9);
  assert.equal((await readRawRecord(db, rawRecord.id)).status, 'pending');
  assert.equal(await createHarness(db, { model }).runNext(), 'completed');
  assert.equal((await findListingPayloads(db, payload))?.completed_hash, rawRecord.content_hash);
  assert.equal((await readSnapshots(db, rawRecord.listing_id)).length, 2);
});

test('A payload whose write a timeout hides does not stay completed', async () => {
  const payload = createPayload();
  const rawRecord = await createHarness(db).process(payload);
  const slowDb = watchDatabase(db, {
    after(text) {
      if (text.includes('insert into property_listings')) throw new StageTimeoutError('too slow');
    },
  });
  const reprocess = openReprocess(slowDb, createBetterModel());
  const [reading] = filterExtracted(await readAll(reprocess));
  assert.ok(reading);
  assert.equal((await reprocess.write(reading)).outcome, 'failed');
  assert.equal((await findListing(db, payload))?.rooms, 9);
  assert.equal((await readRawRecord(db, rawRecord.id)).status, 'failed');
});

test('A worker continues the write of a killed process, or leaves the payload as it was', async () => {
  const payload = createPayload();
  const harness = createHarness(db);
  const rawRecord = await harness.process(payload);
  assert.ok(rawRecord.listing_id);
  const claimTerms = { worker: 'killed', leaseMs: 60_000 };
  const model = createBetterModel();
  const recover = async () => {
    await rescueJobs({ db, log }, { maxAttempts: 3, isExclusive: true });
    assert.equal(await createHarness(db, { model }).runNext(), 'completed');
  };
  const job = await claimForReprocessing(db, rawRecord.id, claimTerms);
  assert.deepEqual([job?.attempt, job?.earlierStatus], [2, 'completed']);
  await recover();
  assert.equal((await findListing(db, payload))?.rooms, 2);
  assert.equal(model.calls.chat, 0);

  assert.ok(await claimForReprocessing(db, rawRecord.id, claimTerms));
  // Simulates a kill after the listing was written: the write has cleared completed_hash.
  await db.updateTable('listing_payloads').set({ completed_hash: null }).execute();
  await recover();
  assert.equal((await findListing(db, payload))?.rooms, 9);
  assert.equal((await findListingPayloads(db, payload))?.completed_hash, rawRecord.content_hash);
});

test('A failed payload is extracted again', async () => {
  const payload = createPayload();
  const failingModel = { ...createCountingModel(), embed: () => Promise.reject(new Error('no')) };
  const rawRecord = await createHarness(db, { model: failingModel }).process(payload);
  assert.deepEqual([rawRecord.status, rawRecord.error?.stage], ['failed', 'embed']);
  const [reading] = filterExtracted(await readAll(openWithModel(createBetterModel())));
  assert.ok(reading);
  const failingReprocess = openWithModel({ ...createBetterModel(), embed: failingModel.embed });
  assert.equal((await failingReprocess.write(reading)).outcome, 'failed');
  assert.equal((await readRawRecord(db, rawRecord.id)).status, 'failed');
  assert.deepEqual(await openWithModel(createBetterModel()).write(reading), { outcome: 'written' });
  assert.equal((await readRawRecord(db, rawRecord.id)).status, 'completed');
});

test('A correction holds against another extraction, and while one is in progress', async () => {
  const payload = createPayload({ external_id: 'corrected' });
  const { listing_id: listingId } = await createHarness(db).process(payload);
  const correct = async (facts: object) =>
    assert.equal((await collector.patch(`/api/v1/listings/${listingId}`, facts)).status, 200);
  await correct({ rooms: 5 });
  const reprocess = openWithModel(createBetterModel(() => ({ rooms: 9, year_built: 1990 })));
  const [reading] = filterExtracted(await readAll(reprocess));
  assert.ok(reading);
  assert.deepEqual(reading.changes, { year_built: { from: null, to: 1990 } });
  assert.deepEqual(await reprocess.write(reading), { outcome: 'written' });
  assert.partialDeepStrictEqual(await findListing(db, payload), { rooms: 5, year_built: 1990 });

  const model = createCountingModel();
  const generateObject: typeof model.generateObject = async (request) => {
    await correct({ floor: 4 });
    return model.generateObject(request);
  };
  const harness = createHarness(db, { model: { ...model, generateObject } });
  await harness.process({ ...payload, floor: 2, title: 'Нова назва' });
  const expected = { rooms: 5, floor: 4, title: 'Нова назва' };
  assert.partialDeepStrictEqual(await findListing(db, payload), expected);
});

test('A dry run writes nothing', async () => {
  const harness = createHarness(db);
  await harness.process(createPayload({ external_id: 'read' }));
  await harness.process(createPayload({ external_id: 'rejected', title: 'rejected' }));
  await harness.process(createPayload({ external_id: 'failed', title: 'failed' }));
  const rowsBefore = await readAllRows(db);
  const model = createBetterModel((read) => {
    if (read.title === 'failed') throw new ModelError('MODEL_TRUNCATED', 'cut off');
    return read.title === 'rejected' ? { is_listing: false, reason: 'A service.' } : { rooms: 9 };
  });
  assert.deepEqual(
    (await readAll(openWithModel(model), {}, 1000, true)).map(({ outcome }) => outcome),
    ['read', 'not_a_listing', 'failed'],
  );
  assert.deepEqual(await readAllRows(db), rowsBefore);
});

test('Each extraction with a different result adds a snapshot to the history', async () => {
  const { id, listing_id: listingId } = await createHarness(db).process(createPayload());
  for (const rooms of [9, 9, 4]) {
    const reprocess = openReprocess(
      db,
      createBetterModel(() => ({ rooms })),
    );
    for (const reading of filterExtracted(await readAll(reprocess))) {
      assert.deepEqual(await reprocess.write(reading), { outcome: 'written' });
    }
  }
  const getHistory = async (query = '') => {
    const response = await collector.get(`/api/v1/listings/${listingId}/history${query}`);
    const nextQuery = /<[^?]+(\?.+)>/.exec(response.headers.get('link') ?? '')?.[1];
    return { items: response.json<object[]>(), next: nextQuery };
  };
  const { items } = await getHistory();
  const reprocessedEntry = { raw_id: id, reprocessed: true, model: 'better-2026' };
  assert.partialDeepStrictEqual(items, [
    { ...reprocessedEntry, changes: { rooms: { from: 9, to: 4 } } },
    { ...reprocessedEntry, changes: { rooms: { from: 2, to: 9 } } },
    { raw_id: id, reprocessed: false, model: 'mock' },
  ]);
  assert.equal(items.length, 3);
  assert.deepEqual(Reflect.get(Object(items[2]), 'changes'), {});
  // A page may end between two snapshots of one payload.
  const first = await getHistory('?limit=1');
  const second = await getHistory(first.next);
  assert.deepEqual([...first.items, ...second.items], items.slice(0, 2));
});
