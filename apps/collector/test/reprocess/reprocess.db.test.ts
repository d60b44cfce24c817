import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { ModelError } from '@oselya/model';
import { claimAgain } from '../../src/queue/claim.ts';
import { expireLeases, rescueJobs } from '../../src/queue/jobs.ts';
import { watchedDatabase } from '@oselya/testing/database';
import {
  openDatabase,
  rawRecord,
  store,
  payloadOf,
  countedModel,
  createHarness,
  currentOf,
  listingOf,
  snapshotsOf,
} from '../support/pipeline.ts';
import { betterModel, openReprocess, readAll, readings } from './harness.ts';

const { db } = await openDatabase();
const open = (model: ReturnType<typeof countedModel>) => openReprocess(db, model);

/** All that is stored, but the embeddings' columns, whose text form is long. */
async function everything() {
  return {
    raws: await db.selectFrom('raw_data').selectAll().orderBy('id').execute(),
    listings: await db.selectFrom('property_listings').selectAll().orderBy('id').execute(),
    currents: await db.selectFrom('listing_payloads').selectAll().orderBy('raw_id').execute(),
    snapshots: await db.selectFrom('listing_snapshots').selectAll().orderBy('id').execute(),
    enrichments: await db
      .selectFrom('listing_enrichments')
      .selectAll()
      .orderBy('listing_id')
      .orderBy('kind')
      .execute(),
  };
}

async function provenanceOf(listingId: number) {
  const { value } = await db
    .selectFrom('listing_enrichments')
    .select('value')
    .where('listing_id', '=', listingId)
    .where('kind', '=', 'provenance')
    .executeTakeFirstOrThrow();
  return value;
}

beforeEach(async () => {
  await db.deleteFrom('raw_data').execute();
  await db.deleteFrom('property_listings').execute();
});

test('a reading tells what would change, and changes nothing but what it cost', async () => {
  const harness = createHarness(db);
  await harness.process(payloadOf({ external_id: 'a' }));
  await harness.process(payloadOf({ external_id: 'b', rooms: 3 }));
  const before = await everything();
  const model = betterModel();
  const outcomes = readings(await readAll(open(model)));
  assert.deepEqual(
    outcomes.map(({ changes }) => changes),
    [{ rooms: { from: 2, to: 9 } }, {}],
    "the source's own number wins as ever",
  );
  assert.deepEqual(model.calls, { chat: 2, embed: 0 });
  const after = await everything();
  const usages = (raws: typeof before.raws) => raws.map(({ model_usage: usage }) => usage);
  for (const [nth, usage] of usages(after.raws).entries()) {
    const earlier = before.raws[nth]?.model_usage;
    assert.ok(usage && earlier);
    assert.equal(usage.calls, earlier.calls + 1);
    assert.ok(usage.input_tokens > earlier.input_tokens, 'its tokens are added');
  }
  const withoutCost = ({ raws, ...others }: typeof before) => ({
    ...others,
    raws: raws.map(({ model_usage: _cost, ...raw }) => raw),
  });
  assert.deepEqual(withoutCost(after), withoutCost(before));
});

test('what is written goes through the pipeline without another question to the model', async () => {
  const payload = payloadOf();
  const raw = await createHarness(db).process(payload);
  const model = betterModel();
  const reprocess = open(model);
  const [reading] = readings(await readAll(reprocess));
  assert.ok(reading);
  assert.deepEqual(await reprocess.write(reading), { outcome: 'written' });
  assert.deepEqual(model.calls, { chat: 1, embed: 1 });
  const listing = await listingOf(db, payload);
  assert.equal(listing?.rooms, 9);
  const again = await rawRecord(db, raw.id);
  assert.deepEqual(
    [again.status, again.attempts, again.attempt, again.error, again.claimed_by],
    ['completed', 1, 2, null, null],
  );
  assert.equal((await currentOf(db, payload))?.completed_hash, raw.content_hash);
  const { model: name, requested_model, raw_id } = await provenanceOf(listing.id);
  assert.deepEqual([name, requested_model, raw_id], ['better-2026', 'better', raw.id]);
});

test('a listing with the markup of its payload is brought up to date', async () => {
  const payload = payloadOf({ description: '<p>Продам квартиру,</p><p>54&nbsp;м²</p>' });
  const harness = createHarness(db);
  await harness.process(payload);
  const { description: html } = payload;
  await db.updateTable('property_listings').set({ description: html, search_text: html }).execute();
  await harness.process(payload);
  assert.equal((await listingOf(db, payload))?.description, html, 'the payload says nothing new');
  const reprocess = open(countedModel());
  const [reading] = readings(await readAll(reprocess));
  assert.ok(reading);
  const plain = 'Продам квартиру,\n54 м²';
  assert.deepEqual(reading.changes, { description: { from: html, to: plain } });
  assert.deepEqual(await reprocess.write(reading), { outcome: 'written' });
  const listing = await listingOf(db, payload);
  assert.equal(listing?.description, plain);
  assert.match(listing.search_text, /продам квартиру 54 м2/);
});

test('what the current prompt and model have read is not outdated', async () => {
  const harness = createHarness(db);
  for (const external_id of ['a', 'b', 'c']) await harness.process(payloadOf({ external_id }));
  const model = betterModel();
  const reprocess = open(model);
  const outdated = reprocess.current;
  assert.equal(await reprocess.count({ outdated }), 3);
  const [first] = readings(await readAll(reprocess, { outdated }, 1));
  assert.ok(first);
  assert.equal(model.calls.chat, 1, 'no more are read than are asked for');
  await reprocess.write(first);
  assert.equal(await reprocess.count({ outdated }), 2);
  const rest = readings(await readAll(reprocess, { outdated }));
  assert.deepEqual(
    rest.map(({ listingId }) => listingId > first.listingId),
    [true, true],
  );
  assert.equal(await reprocess.count({ outdated }), 2, 'reading alone writes nothing');
  assert.equal(await reprocess.count({ outdated: open(countedModel()).current }), 1);
});

test('what is no listing for the current prompt and model is not read by them again', async () => {
  const harness = createHarness(db);
  const payload = payloadOf({ external_id: 'refused' });
  await harness.process(payload);
  const failing = await harness.process(payloadOf({ external_id: 'failed', title: 'failed' }));
  const refuses = betterModel((read) => {
    if (read.title === 'failed') throw new ModelError('MODEL_TRUNCATED', 'cut off');
    return { is_listing: false, reason: 'A service.' };
  });
  const reprocess = open(refuses);
  const outdated = reprocess.current;
  const listings = await db.selectFrom('property_listings').selectAll().execute();
  assert.equal((await readAll(reprocess, { outdated })).length, 2);
  assert.deepEqual(
    (await readAll(reprocess, { outdated })).map(({ outcome, listingId }) => [outcome, listingId]),
    [['failed', failing.listing_id]],
    'a failure is no reading',
  );
  assert.deepEqual(await db.selectFrom('property_listings').selectAll().execute(), listings);

  // The same again is the same.
  await harness.process(payload);
  assert.equal(await reprocess.count({ outdated }), 1);
  // Another model, another prompt, another payload, or whoever asks for all, has it read.
  const other = open({ ...refuses, chatModel: 'another' });
  assert.equal(await other.count({ outdated: other.current }), 2);
  assert.equal(await reprocess.count({ outdated: { ...outdated, promptVersion: 'v0' } }), 2);
  assert.equal(await reprocess.count({}), 2);
  await harness.process({ ...payload, price: 1, currency: 'USD' });
  assert.equal(await reprocess.count({ outdated }), 2);
});

test('a source or a listing can be chosen', async () => {
  const harness = createHarness(db);
  const { listing_id: id } = await harness.process(payloadOf());
  await harness.process(payloadOf({ source_slug: 'oholoshennia' }));
  const reprocess = open(betterModel());
  assert.ok(id);
  assert.deepEqual(
    (await readAll(reprocess, { listingId: id })).map((one) => one.listingId),
    [id],
  );
  assert.equal((await readAll(reprocess, { source: 'oholoshennia' })).length, 1);
  assert.equal((await readAll(reprocess, { source: 'nobody' })).length, 0);
});

test('an archived listing stays archived', async () => {
  const payload = payloadOf();
  await createHarness(db).process(payload);
  const archived_at = new Date('2026-01-02T03:04:05Z');
  await db.updateTable('property_listings').set({ archived_at }).execute();
  const reprocess = open(betterModel());
  const [reading] = readings(await readAll(reprocess));
  assert.ok(reading);
  assert.deepEqual(await reprocess.write(reading), { outcome: 'written' });
  const listing = await listingOf(db, payload);
  assert.deepEqual([listing?.rooms, listing?.archived_at], [9, archived_at]);
});

test('payloads that are gone, on their way, no listings any more, or too much for the model', async () => {
  const harness = createHarness(db);
  for (const external_id of ['gone', 'later', 'pending', 'refused', 'failed']) {
    await harness.process(payloadOf({ external_id, title: external_id }));
  }
  await db.deleteFrom('raw_data').where('external_id', '=', 'gone').execute();
  await db
    .updateTable('raw_data')
    .set({ status: 'pending' })
    .where('external_id', '=', 'pending')
    .execute();
  const model = betterModel((read) => {
    if (read.title === 'failed') throw new ModelError('MODEL_TRUNCATED', 'cut off');
    return read.title === 'refused' ? { is_listing: false, reason: 'A service.' } : {};
  });
  const reprocess = open(model);
  const outcomes = await readAll(reprocess);
  const about = outcomes.map((one) => [
    one.outcome,
    one.outcome === 'not_a_listing' ? one.reason : one.outcome === 'failed' ? one.error.code : '',
  ]);
  assert.deepEqual(about, [
    ['payload_gone', ''],
    ['read', ''],
    ['in_progress', ''],
    ['not_a_listing', 'A service.'],
    ['failed', 'MODEL_TRUNCATED'],
  ]);
  const before = await everything();
  // A newer payload comes between reading and writing.
  await store(db, payloadOf({ external_id: 'later' }));
  const [reading] = readings(outcomes);
  assert.ok(reading);
  assert.deepEqual(await reprocess.write(reading), { outcome: 'changed' });
  assert.deepEqual((await everything()).listings, before.listings);
});

test('a wrong setting or a server that is away ends the reading at once, and what fails on all soon', async () => {
  const harness = createHarness(db);
  for (let nth = 0; nth < 20; nth += 1) await harness.process(payloadOf());
  const before = await everything();
  // The slots; and ten in a row, with those that had been begun ahead of the tenth.
  for (const [code, status, most] of [
    ['MODEL_UNREACHABLE', undefined, 4],
    ['MODEL_MISCONFIGURED', undefined, 4],
    ['MODEL_REJECTED', 401, 4],
    ['MODEL_REJECTED', 404, 4],
    ['MODEL_REJECTED', 302, 4],
    ['MODEL_REJECTED', 400, 10 + 2 * 4],
  ] as const) {
    const model = betterModel(() => {
      throw new ModelError(code, 'no', status === undefined ? {} : { status });
    });
    await assert.rejects(
      readAll(open(model)),
      (error) => error instanceof ModelError && error.code === code,
    );
    assert.ok(model.calls.chat <= most, `${code} ${status}: ${model.calls.chat} calls`);
  }
  assert.deepEqual((await everything()).listings, before.listings);
});

test('a model that fails on the embedding leaves all as it was, and a wrong setting ends the writing', async () => {
  const payload = payloadOf();
  await createHarness(db).process(payload);
  const model = betterModel();
  const [reading] = readings(await readAll(open(model)));
  assert.ok(reading);
  const before = await everything();
  const failsWith = (failure: ModelError) =>
    open({ ...model, embed: () => Promise.reject(failure) });
  const tooLong = new ModelError('MODEL_REJECTED', 'too long', { status: 400 });
  assert.deepEqual(await failsWith(tooLong).write(reading), { outcome: 'kept', error: tooLong });
  for (const error of [
    new ModelError('MODEL_REJECTED', 'no such model', { status: 404 }),
    new ModelError('MODEL_UNREACHABLE', 'nobody is there'),
  ]) {
    await assert.rejects(failsWith(error).write(reading), error);
  }
  assert.deepEqual(await everything(), before);
});

test('what fails before anything is written stays completed, with its listing', async () => {
  const payload = payloadOf();
  const raw = await createHarness(db).process(payload);
  const reprocess = open(betterModel());
  const [reading] = readings(await readAll(reprocess));
  assert.ok(reading);
  const before = await everything();
  // The stage before the first write refuses it.
  const extraction = { ...reading.extracted.extraction, is_listing: false };
  const broken = { ...reading, extracted: { ...reading.extracted, extraction } };
  assert.deepEqual(await reprocess.write(broken), {
    outcome: 'kept',
    error: new Error(extraction.reason ?? 'The model found no property listing in the payload.'),
  });
  const after = await rawRecord(db, raw.id);
  assert.deepEqual(
    [after.status, after.error, after.listing_id],
    ['completed', null, raw.listing_id],
  );
  assert.equal((await currentOf(db, payload))?.completed_hash, raw.content_hash);
  assert.deepEqual((await everything()).snapshots, before.snapshots);
  assert.equal((await listingOf(db, payload))?.rooms, 2);
});

test('what was written without an answer is not taken for what it was: a worker goes on with it', async () => {
  const payload = payloadOf();
  const raw = await createHarness(db).process(payload);
  const model = betterModel();
  const unheard = watchedDatabase(db, {
    after(text) {
      if (!text.includes('insert into property_listings')) return;
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
    },
  });
  const reprocess = openReprocess(unheard, model);
  const [reading] = readings(await readAll(reprocess));
  assert.ok(reading);
  assert.equal((await reprocess.write(reading)).outcome, 'queued');
  assert.equal((await listingOf(db, payload))?.rooms, 9, 'it is written');
  assert.equal((await rawRecord(db, raw.id)).status, 'pending');
  assert.equal(await createHarness(db, { model }).runNext(), 'completed');
  assert.equal((await currentOf(db, payload))?.completed_hash, raw.content_hash);
  assert.equal((await snapshotsOf(db, raw.listing_id)).length, 2);
});

test('one whose process was killed is as it was, or goes on where its listing was being written', async () => {
  const payload = payloadOf();
  const harness = createHarness(db);
  const raw = await harness.process(payload);
  assert.ok(raw.listing_id);
  const target = { rawId: raw.id, listingId: raw.listing_id };
  const claimant = { worker: 'killed', leaseMs: 60_000 };
  const model = betterModel();
  const goOn = async () => {
    await expireLeases(db);
    await rescueJobs(db, 3);
    assert.equal(await createHarness(db, { model }).runNext(), 'completed');
  };
  const job = await claimAgain(db, target, claimant);
  assert.deepEqual([job?.attempt, job?.before], [2, 'completed']);
  await goOn();
  assert.equal((await listingOf(db, payload))?.rooms, 2);
  assert.equal(model.calls.chat, 0, 'nothing is asked for it');

  assert.ok(await claimAgain(db, target, claimant));
  // As the stage that writes the listing leaves it.
  await db.updateTable('listing_payloads').set({ completed_hash: null }).execute();
  await goOn();
  assert.equal((await listingOf(db, payload))?.rooms, 9);
  assert.equal((await currentOf(db, payload))?.completed_hash, raw.content_hash);
});

test('a payload that a newer one is about to overtake is not read', async () => {
  const harness = createHarness(db);
  const payload = payloadOf();
  await harness.process(payload);
  await store(db, { ...payload, price: 1, currency: 'USD' });
  const model = betterModel();
  const outcomes = await readAll(open(model));
  assert.deepEqual(
    outcomes.map(({ outcome }) => outcome),
    ['in_progress'],
  );
  assert.equal(model.calls.chat, 0);
});

test('one that had failed is taken, and one that fails again is failed', async () => {
  const payload = payloadOf();
  const failing = { ...countedModel(), embed: () => Promise.reject(new Error('no')) };
  const raw = await createHarness(db, { model: failing }).process(payload);
  assert.deepEqual([raw.status, raw.error?.stage], ['failed', 'embed']);
  const [reading] = readings(await readAll(open(betterModel())));
  assert.ok(reading);
  const pipeline = open({ ...betterModel(), embed: failing.embed });
  await assert.rejects(pipeline.write(reading), /no/);
  assert.equal((await rawRecord(db, raw.id)).status, 'failed');
  assert.deepEqual(await open(betterModel()).write(reading), { outcome: 'written' });
  assert.equal((await rawRecord(db, raw.id)).status, 'completed');
});

test('a dry run writes nothing at all', async () => {
  const harness = createHarness(db);
  await harness.process(payloadOf({ external_id: 'read' }));
  await harness.process(payloadOf({ external_id: 'refused', title: 'refused' }));
  await harness.process(payloadOf({ external_id: 'failed', title: 'failed' }));
  const before = await everything();
  const model = betterModel((read) => {
    if (read.title === 'failed') throw new ModelError('MODEL_TRUNCATED', 'cut off');
    return read.title === 'refused' ? { is_listing: false, reason: 'A service.' } : { rooms: 9 };
  });
  assert.deepEqual(
    (await readAll(open(model), {}, 1000, true)).map(({ outcome }) => outcome),
    ['read', 'not_a_listing', 'failed'],
  );
  assert.deepEqual(await everything(), before);
});

test('the payload that came last is read again, also where it said nothing new', async () => {
  const payload = payloadOf();
  const harness = createHarness(db);
  await harness.process(payload);
  const last = await harness.process(payload);
  await db.updateTable('property_listings').set({ archived_at: new Date() }).execute();
  const reprocess = open(betterModel());
  const [reading] = readings(await readAll(reprocess));
  assert.ok(reading);
  assert.equal(reading.rawId, last.id);
  assert.deepEqual(await reprocess.write(reading), { outcome: 'written' });
  const listing = await listingOf(db, payload);
  assert.equal(listing?.rooms, 9);
  assert.ok(listing.archived_at, 'that is no sign that it is offered');
});
