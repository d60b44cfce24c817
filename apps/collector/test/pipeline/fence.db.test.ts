import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import type { Context } from '../../src/pipeline/context.ts';
import type { PipelineDeps } from '../../src/pipeline/pipeline.ts';
import { claimJobs } from '../../src/queue/claim.ts';
import {
  openDatabase,
  rawRecord,
  store,
  payloadOf,
  countedModel,
  createHarness,
  createStageRunner,
  currentOf,
  listingOf,
  noImages,
  outcomesOf,
  snapshotsOf,
} from '../support/pipeline.ts';

const { db } = await openDatabase();

/** Ways to lose a claim: the job is pending again, or another worker has it. */
const losses = {
  'to the queue': () => ({ status: 'pending' as const }),
  'to another worker': () => ({ attempt: sql<number>`attempt + 1` }),
};

/** Reads all rows that stages write. */
async function readRows() {
  return {
    raws: await db.selectFrom('raw_data').selectAll().orderBy('id').execute(),
    listings: await db.selectFrom('property_listings').selectAll().orderBy('id').execute(),
    currents: await db.selectFrom('listing_payloads').selectAll().orderBy('raw_id').execute(),
    snapshots: await db.selectFrom('listing_snapshots').selectAll().orderBy('id').execute(),
    enrichments: await db.selectFrom('listing_enrichments').selectAll().execute(),
  };
}

type Moment = 'generateObject' | 'processRemote' | 'embed';

/** Creates a model and images that call a function before they answer. */
function interrupted(pass: (now: Moment) => Promise<void>): Partial<PipelineDeps> {
  const model = countedModel();
  return {
    model: {
      chatModel: model.chatModel,
      embeddingModel: model.embeddingModel,
      async generateObject(request) {
        const answer = await model.generateObject(request);
        await pass('generateObject');
        return answer;
      },
      async embed(texts, options) {
        const answer = await model.embed(texts, options);
        await pass('embed');
        return answer;
      },
    },
    images: {
      ...noImages,
      async processRemote() {
        await pass('processRemote');
        return [];
      },
    },
  };
}

for (const [whereTo, loss] of Object.entries(losses)) {
  for (const moment of ['generateObject', 'processRemote', 'embed'] as const) {
    test(`A claim that is lost ${whereTo} during ${moment} writes nothing more`, async () => {
      const rawId = await store(db, payloadOf());
      let before: Awaited<ReturnType<typeof readRows>> | undefined;
      const pass = async (now: Moment) => {
        if (now !== moment) return;
        await db.updateTable('raw_data').set(loss()).where('id', '=', rawId).execute();
        before = await readRows();
      };
      const outcome = await createHarness(db, interrupted(pass)).runNext();
      assert.equal(outcome, 'lost');
      assert.ok(before);
      assert.deepEqual(await readRows(), before);
      await db.deleteFrom('raw_data').where('id', '=', rawId).execute();
    });
  }
}

test('An older payload never overwrites a newer one', async () => {
  const harness = createHarness(db);
  const payload = payloadOf({ price: 1000 });
  const older = await store(db, payload);
  await db.updateTable('raw_data').set({ status: 'failed' }).where('id', '=', older).execute();
  await harness.process({ ...payload, price: 900 });
  await db.updateTable('raw_data').set({ status: 'pending' }).where('id', '=', older).execute();
  await harness.runNext();
  const raw = await rawRecord(db, older);
  assert.equal(raw.status, 'completed');
  assert.deepEqual(outcomesOf(raw), { load: 'superseded' });
  assert.equal((await listingOf(db, payload))?.price, 900);
});

for (const moment of ['processRemote', 'embed'] as const) {
  test(`A listing that a newer payload made during ${moment} stays as it is`, async () => {
    const payload = payloadOf({ title: 'Стара', price: 1000, currency: 'USD', area_total: 50 });
    const older = await store(db, payload);
    let before: Awaited<ReturnType<typeof readRows>> | undefined;
    const pass = async (now: Moment) => {
      if (now !== moment) return;
      // As if the newer payload was committed first.
      await db.updateTable('raw_data').set({ status: 'failed' }).where('id', '=', older).execute();
      const newer = await store(db, { ...payload, title: 'Нова', price: 900 });
      await createHarness(db).runNext();
      await db
        .updateTable('raw_data')
        .set({ status: 'processing' })
        .where('id', '=', older)
        .execute();
      assert.equal((await currentOf(db, payload))?.raw_id, newer);
      before = await readRows();
    };
    const outcome = await createHarness(db, interrupted(pass)).runNext();
    assert.equal(outcome, 'completed');
    const now = await readRows();
    assert.ok(before);
    assert.deepEqual({ ...now, raws: [] }, { ...before, raws: [] });
    const ending = moment === 'embed' ? 'embed' : 'enrich';
    assert.equal(outcomesOf(await rawRecord(db, older))[ending], 'superseded');
  });
}

test('An unchanged payload keeps its listing from an older one in progress', async () => {
  const payload = payloadOf({ price: 1000 });
  await createHarness(db).process(payload);
  const older = await store(db, { ...payload, price: 900 });
  const setStatus = (status: 'failed' | 'processing') =>
    db.updateTable('raw_data').set({ status }).where('id', '=', older).execute();
  const model = countedModel();
  await createHarness(db, {
    model: {
      ...model,
      async generateObject(request) {
        await setStatus('failed');
        assert.deepEqual(outcomesOf(await createHarness(db).process(payload)), {
          load: 'unchanged',
        });
        await setStatus('processing');
        return model.generateObject(request);
      },
    },
  }).runNext();
  assert.equal(outcomesOf(await rawRecord(db, older))['upsert'], 'superseded');
  assert.equal((await listingOf(db, payload))?.price, 1000);
});

test('A payload that a newer one overtakes before its snapshot leaves none', async () => {
  const payload = payloadOf({ price: 1000, currency: 'USD' });
  const first = await createHarness(db).process(payload);
  const older = await store(db, { ...payload, price: 950 });
  const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
  assert.ok(job);
  const context: Context = { job, outputs: {} };
  const run = createStageRunner(db);
  for (const stage of ['load', 'validate', 'normalize', 'upsert'] as const) {
    assert.equal((await run(context, stage)).outcome, 'done');
  }
  const setStatus = (status: 'failed' | 'processing') =>
    db.updateTable('raw_data').set({ status }).where('id', '=', older).execute();
  await setStatus('failed');
  const newer = await createHarness(db).process({ ...payload, price: 900 });
  await setStatus('processing');
  assert.equal((await run(context, 'snapshot')).outcome, 'superseded');
  assert.deepEqual(
    (await snapshotsOf(db, first.listing_id)).map(({ raw_id, changes }) => [raw_id, changes]),
    [
      [first.id, {}],
      [newer.id, { price: { from: 1000, to: 900 } }],
    ],
    'each snapshot has the changes since the previous one',
  );
});
