import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ModelClient, ModelError, type ModelErrorCode } from '@oselya/model';
import { sql } from 'kysely';
import { noteGone } from '../../src/operations/archive/verdicts.sql.ts';
import { createStages } from '../../src/pipeline/pipeline.ts';
import type { Provenance } from '../../src/listings/provenance.ts';
import { SupersededError } from '../../src/queue/job.ts';
import type { JobInput } from '../../src/pipeline/context.ts';
import { openDatabase, rawRecord, store } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';
import {
  countedModel,
  createHarness,
  currentOf,
  listingOf,
  noImages,
} from '../support/pipeline.ts';
import { until } from '../support/until.ts';

const database = await openDatabase();
const { db } = database;

const outcomes = (raw: { stages: { stage: string; outcome: string }[] }) =>
  Object.fromEntries(raw.stages.map(({ stage, outcome }) => [stage, outcome]));

function snapshotsOf(listingId: number | null) {
  return db
    .selectFrom('listing_snapshots')
    .select(['raw_id', 'changes', 'listing', 'model', 'prompt_version'])
    .where('listing_id', '=', listingId ?? 0)
    .orderBy('raw_id')
    .execute();
}

async function enrichmentsOf(listingId: number | null) {
  const rows = await db
    .selectFrom('listing_enrichments')
    .select(['kind', 'value'])
    .where('listing_id', '=', listingId ?? 0)
    .execute();
  return Object.fromEntries(rows.map((row) => [row.kind, row.value]));
}

test('there are eight stages in the documented order', () => {
  const names = createStages(1000).map((stage) => stage.name);
  assert.deepEqual(names, [
    'load',
    'validate',
    'normalize',
    'upsert',
    'snapshot',
    'images',
    'enrich',
    'embed',
  ]);
});

test('a payload becomes a listing with facts, words, embedding, snapshot and provenance', async () => {
  const model = countedModel();
  const payload = payloadOf({
    city: 'Львів',
    price: 61_500,
    currency: 'USD',
    attributes: { heating: 'gas' },
    published_at: '2025-03-01T10:00:00+23:30',
  });
  const raw = await createHarness(db, { model }).process(payload);
  assert.equal(raw.status, 'completed', JSON.stringify(raw.error));
  assert.equal(raw.error, null);
  assert.equal(raw.claimed_by, null);
  assert.deepEqual(outcomes(raw), {
    load: 'done',
    validate: 'done',
    normalize: 'done',
    upsert: 'done',
    snapshot: 'done',
    images: 'skipped',
    enrich: 'done',
    embed: 'done',
  });
  for (const stage of raw.stages) {
    assert.ok(stage.duration_ms >= 0);
    assert.ok(!Number.isNaN(Date.parse(stage.started_at)));
  }
  assert.deepEqual(model.calls, { chat: 1, embed: 1 });

  const listing = await listingOf(db, payload);
  assert.ok(listing);
  assert.equal(raw.listing_id, listing.id);
  assert.equal(listing.price, 61_500, "the source's own price wins over that of the text");
  assert.equal(listing.rooms, 2, 'read out of the text');
  assert.equal(listing.area_total, 54);
  assert.equal(listing.deal_type, 'sale');
  assert.equal(listing.city_key, 'львів');
  assert.match(listing.search_text, /двокімнатну квартиру у львові/);
  assert.deepEqual(listing.attributes, { heating: 'gas' });
  assert.equal(listing.published_at?.toISOString(), '2025-02-28T10:30:00.000Z');
  assert.ok(listing.embedding);
  assert.deepEqual(await currentOf(db, payload), {
    source_slug: payload.source_slug,
    external_id: payload.external_id,
    raw_id: raw.id,
    completed_hash: raw.content_hash,
  });

  const snapshots = await snapshotsOf(listing.id);
  assert.equal(snapshots.length, 1);
  assert.deepEqual(snapshots[0]?.changes, {});
  assert.equal(snapshots[0]?.model, 'mock');
  assert.equal(snapshots[0]?.prompt_version, 'listing-extraction.v1');
  const enrichments = await enrichmentsOf(listing.id);
  assert.deepEqual(enrichments['price_per_m2'], { value: 1138.89, currency: 'USD' });
  const { fields, ...made } = enrichments['provenance'] as Provenance;
  assert.deepEqual(made, {
    raw_id: raw.id,
    model: 'mock',
    requested_model: 'mock',
    prompt_version: 'listing-extraction.v1',
  });
  assert.deepEqual(fields['price'], { origin: 'payload' });
  assert.deepEqual(fields['rooms'], { origin: 'model' });
  assert.deepEqual(fields['price_per_m2'], { origin: 'rule', rule: 'price_by_area' });
});

test('an unchanged payload asks no model, and brings the listing back from the archive', async () => {
  const model = countedModel();
  const harness = createHarness(db, { model });
  const payload = payloadOf();
  const first = await harness.process(payload);
  await db
    .updateTable('property_listings')
    .set({ archived_at: new Date() })
    .where('id', '=', first.listing_id)
    .execute();
  model.calls.chat = 0;
  model.calls.embed = 0;

  const reordered = Object.fromEntries(Object.entries(payload).toReversed());
  const second = await harness.process({ ...payload, ...reordered });
  assert.equal(second.status, 'completed');
  assert.deepEqual(outcomes(second), { load: 'unchanged' });
  assert.deepEqual(model.calls, { chat: 0, embed: 0 });
  assert.equal(second.listing_id, first.listing_id);
  const listing = await listingOf(db, payload);
  assert.equal(listing?.archived_at, null);
  assert.equal((await currentOf(db, payload))?.raw_id, second.id);
  assert.equal((await snapshotsOf(first.listing_id)).length, 1);
});

/** The version of a listing's row: every update makes another, and an entry for it in each of its indexes. */
async function versionOf(listingId: number | null): Promise<unknown> {
  const { rows } = await sql`select xmin::text, ctid::text from property_listings
    where id = ${listingId}`.execute(db);
  return rows[0];
}

test('an unchanged payload leaves the row of its listing as it is, and its indexes', async () => {
  const harness = createHarness(db);
  const payload = payloadOf();
  const { listing_id: id } = await harness.process(payload);
  const version = await versionOf(id);
  const again = await harness.process(payload);
  assert.deepEqual(outcomes(again), { load: 'unchanged' });
  assert.ok(version);
  assert.deepEqual(await versionOf(id), version);
  assert.equal((await currentOf(db, payload))?.raw_id, again.id);
});

test('after an unchanged payload an older one changes nothing', async () => {
  const harness = createHarness(db);
  const payload = payloadOf({ price: 1000 });
  await harness.process(payload);
  const late = await store(db, { ...payload, price: 900 });
  await db.updateTable('raw_data').set({ status: 'failed' }).where('id', '=', late).execute();
  const again = await harness.process(payload);
  assert.deepEqual(outcomes(again), { load: 'unchanged' });
  await db.updateTable('raw_data').set({ status: 'pending' }).where('id', '=', late).execute();
  await harness.runNext();
  assert.deepEqual(outcomes(await rawRecord(db, late)), { load: 'superseded' });
  assert.equal((await listingOf(db, payload))?.price, 1000);
});

if (!database.isExclusive) {
  test('a listing that is archived while its payload comes again is back with that', async () => {
    const harness = createHarness(db);
    const payload = payloadOf();
    const { id: rawId, listing_id: listingId } = await harness.process(payload);
    assert.ok(listingId);
    await sql`insert into listing_checks (listing_id, gone_since, gone_raw_id)
      values (${listingId}, now() - interval '1 day', ${rawId})`.execute(db);
    let processing: Promise<unknown> | undefined;
    await db.transaction().execute(async (trx) => {
      const claim = { listingId, rawId, url: '' };
      assert.ok(await noteGone(trx, claim, { status: 404, minIntervalSeconds: 60 }));
      processing = harness.process(payload);
      await until('it to wait', async () => {
        const { rows } = await sql`select from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
        return rows.length > 0;
      });
    });
    await processing;
    assert.equal((await listingOf(db, payload))?.archived_at, null);
  });
}

test('a changed price is in the snapshot, and the text that stayed is not embedded again', async () => {
  const model = countedModel();
  const harness = createHarness(db, { model });
  const payload = payloadOf({ price: 62_000, currency: 'USD', city: 'Львів' });
  const first = await harness.process(payload);
  // The mock's summary names the price, and a changed summary is another text to embed.
  const summary = (await listingOf(db, payload))?.summary;
  const second = await harness.process({ ...payload, price: 59_000 });
  const third = await harness.process({ ...payload, price: 59_000, contact_name: 'Оксана' });
  assert.equal(second.listing_id, first.listing_id);
  const snapshots = await snapshotsOf(first.listing_id);
  assert.deepEqual(
    snapshots.map((one) => one.changes['price']),
    [undefined, { from: 62_000, to: 59_000 }, undefined],
  );
  assert.deepEqual(snapshots[2]?.changes, { contact_name: { from: null, to: 'Оксана' } });
  assert.equal((await listingOf(db, payload))?.price, 59_000);
  assert.notEqual((await listingOf(db, payload))?.summary, summary);
  assert.equal(outcomes(second)['embed'], 'done');
  assert.equal(outcomes(third)['embed'], 'skipped');
  assert.deepEqual(model.calls, { chat: 3, embed: 2 });
});

test('each field that a payload changes is in its snapshot', async () => {
  const harness = createHarness(db);
  const payload = payloadOf({
    attributes: { heating: 'gas', lift: true },
    published_at: '2025-03-01T10:00:00Z',
    image_urls: ['https://doshka.example/1.jpg', 'https://doshka.example/2.jpg'],
  });
  const { listing_id: id } = await harness.process(payload);
  await harness.process({
    ...payload,
    description: `${payload.description} Є балкон.`,
    attributes: { lift: true, heating: 'own' },
    published_at: '2025-03-02T10:00:00+02:00',
    image_urls: ['https://doshka.example/2.jpg'],
  });
  const changes = (await snapshotsOf(id))[1]?.changes ?? {};
  assert.deepEqual(Object.keys(changes).toSorted(), [
    'attributes',
    'description',
    'features',
    'pictures',
    'published_at',
  ]);
  assert.deepEqual(changes['attributes'], {
    from: { heating: 'gas', lift: true },
    to: { heating: 'own', lift: true },
  });
  assert.deepEqual(changes['published_at'], {
    from: '2025-03-01T10:00:00.000Z',
    to: '2025-03-02T08:00:00.000Z',
  });
  assert.deepEqual(changes['pictures'], {
    from: ['https://doshka.example/1.jpg', 'https://doshka.example/2.jpg'],
    to: ['https://doshka.example/2.jpg'],
  });
});

test('other words of the model alone make no snapshot, and are in the next one', async () => {
  const mock = countedModel();
  let calls = 0;
  const generateObject: ModelClient['generateObject'] = async (request) => {
    calls += 1;
    const answer = await mock.generateObject(request);
    const words = { title: `Flat ${calls}`, summary: `In words ${calls}`, features: [`f${calls}`] };
    Object.assign(answer.value, words);
    return answer;
  };
  const harness = createHarness(db, { model: { ...mock, generateObject } });
  const { title: _title, ...payload } = payloadOf({ price: 62_000, currency: 'USD' });
  const { listing_id: id } = await harness.process(payload);
  // Another payload, of which the source's own words are the same.
  const second = await harness.process({ ...payload, price: 62_000.001 });
  assert.equal(outcomes(second)['snapshot'], 'skipped');
  assert.equal((await listingOf(db, payload))?.title, 'Flat 2');
  await harness.process({ ...payload, price: 60_000 });
  assert.deepEqual(
    (await snapshotsOf(id)).map(({ changes }) => changes),
    [
      {},
      {
        price: { from: 62_000, to: 60_000 },
        title: { from: 'Flat 1', to: 'Flat 3' },
        features: { from: ['f1'], to: ['f3'] },
      },
    ],
  );
  await harness.process({ ...payload, price: 60_000, title: 'The source names it' });
  assert.deepEqual((await snapshotsOf(id))[2]?.changes['title'], {
    from: 'Flat 3',
    to: 'The source names it',
  });
});

test('a payload that is no listing is invalid, with the reason', async () => {
  const payload = payloadOf({
    title: 'Ремонт телефонів',
    description: 'Ремонтуємо телефони та ноутбуки, швидко і недорого. Виїзд майстра.',
  });
  const raw = await createHarness(db).process(payload);
  assert.equal(raw.status, 'invalid');
  assert.equal(raw.error?.code, 'not_a_listing');
  assert.ok(raw.error?.message);
  assert.deepEqual(outcomes(raw), { load: 'done', validate: 'invalid' });
  assert.equal(await listingOf(db, payload), undefined);
});

test('a payload that was no listing is asked about again when it comes again, and may be one then', async () => {
  const model = countedModel();
  const harness = createHarness(db, { model });
  const payload = payloadOf({
    title: 'Ремонт телефонів',
    description: 'Ремонтуємо телефони та ноутбуки, швидко і недорого. Виїзд майстра.',
  });
  const [first, second] = [await harness.process(payload), await harness.process(payload)];
  assert.deepEqual([first.status, second.status], ['invalid', 'invalid']);
  assert.deepEqual(model.calls, { chat: 2, embed: 0 });
  const improved: typeof model.generateObject = async (request) => {
    const answer = await model.generateObject(request);
    Object.assign(answer.value, { is_listing: true });
    return answer;
  };
  const third = await createHarness(db, {
    model: { ...model, generateObject: improved },
  }).process(payload);
  assert.equal(third.status, 'completed');
  assert.equal((await listingOf(db, payload))?.id, third.listing_id);
});

test('an older payload never overwrites a newer one', async () => {
  const harness = createHarness(db);
  const payload = payloadOf({ price: 1000 });
  const older = await store(db, payload);
  await db.updateTable('raw_data').set({ status: 'failed' }).where('id', '=', older).execute();
  await harness.process({ ...payload, price: 900 });
  await db.updateTable('raw_data').set({ status: 'pending' }).where('id', '=', older).execute();
  await harness.runNext();
  const raw = await rawRecord(db, older);
  assert.equal(raw.status, 'completed');
  assert.deepEqual(outcomes(raw), { load: 'superseded' });
  assert.equal((await listingOf(db, payload))?.price, 900);
});

test('a job may run again from the start without harm', async () => {
  const harness = createHarness(db);
  const payload = payloadOf({ price: 1000 });
  const first = await harness.process(payload);
  const changed = await harness.process({ ...payload, price: 900 });
  const again = { status: 'pending' as const };
  await db.updateTable('raw_data').set(again).where('id', '=', changed.id).execute();
  await db.updateTable('listing_payloads').set({ completed_hash: null }).execute();
  await harness.runNext();
  const raw = await rawRecord(db, changed.id);
  assert.equal(raw.status, 'completed');
  assert.equal(raw.attempt, 2);
  const snapshots = await snapshotsOf(first.listing_id);
  assert.deepEqual(
    snapshots.map((one) => one.changes['price']),
    [undefined, { from: 1000, to: 900 }],
  );
});

test('what a payload no longer has is no longer there', async () => {
  const harness = createHarness(db);
  const payload = payloadOf({ title: 'Квартира', description: 'Продам квартиру у Львові.' });
  const priced = { ...payload, price: 50_000, currency: 'USD', area_total: 50 };
  const { listing_id: id } = await harness.process(priced);
  assert.ok('price_per_m2' in (await enrichmentsOf(id)));
  await harness.process(payload);
  assert.ok(!('price_per_m2' in (await enrichmentsOf(id))));
  assert.equal((await listingOf(db, payload))?.area_total, null);
});

/** A model of which one call fails. */
function failingModel(call: 'generateObject' | 'embed', error: unknown) {
  return { ...countedModel(), [call]: () => Promise.reject(error) };
}

/** Failures of the infrastructure are told their outage. */
const outage = { since: new Date() };
const uploads = [{ path: '/nowhere', sha256: 'a', bytes: 1, name: 'a.png' }];

const modelFailures: [ModelErrorCode, JobInput, string][] = [
  ['MODEL_UNREACHABLE', {}, 'postponed'],
  ['MODEL_TIMEOUT', {}, 'postponed'],
  ['MODEL_BREAKER_OPEN', {}, 'postponed'],
  ['MODEL_REJECTED', {}, 'failed'],
  ['MODEL_INVALID_OUTPUT', {}, 'failed'],
  ['MODEL_REFUSED', {}, 'failed'],
  // Its pictures came along and will be gone: it cannot wait.
  ['MODEL_UNREACHABLE', { uploads }, 'failed'],
];

for (const [code, options, outcome] of modelFailures) {
  test(`${code}${options.uploads ? ' with pictures' : ''} leaves the job ${outcome}`, async () => {
    const error = new ModelError(code, `It was ${code}.`);
    if (error.retryable && code !== 'MODEL_BREAKER_OPEN') error.outage = outage;
    const model = failingModel('generateObject', error);
    const id = await store(db, payloadOf());
    assert.equal(await createHarness(db, { model }).runNext(options), outcome);
    const raw = await rawRecord(db, id);
    if (outcome === 'postponed') {
      assert.deepEqual([raw.status, raw.attempts, raw.error], ['pending', 0, null]);
    } else {
      assert.deepEqual(raw.error, {
        code: 'model_failed',
        message: `It was ${code}.`,
        stage: 'validate',
      });
      assert.deepEqual(outcomes(raw), { load: 'done', validate: 'failed' });
    }
    await db.deleteFrom('raw_data').where('id', '=', id).execute();
  });
}

test('a bad embedding fails the job and is not written; the next try makes it good', async () => {
  const error = new ModelError('MODEL_INVALID_OUTPUT', 'An embedding of zeros only.');
  const payload = payloadOf();
  const raw = await createHarness(db, { model: failingModel('embed', error) }).process(payload);
  assert.equal(raw.status, 'failed');
  assert.equal(raw.error?.stage, 'embed');
  assert.ok(raw.listing_id, 'the listing is there');
  assert.equal((await listingOf(db, payload))?.embedding, null);
  const current = await currentOf(db, payload);
  assert.equal(current?.completed_hash, null, 'the same payload will not pass as unchanged');

  const again = await createHarness(db).process(payload);
  assert.equal(again.status, 'completed');
  assert.ok((await listingOf(db, payload))?.embedding);
});

test('reasons with characters that the database cannot store are recorded all the same', async () => {
  const model = failingModel('generateObject', new ModelError('MODEL_REJECTED', 'a\0b\uD800'));
  const raw = await createHarness(db, { model }).process(payloadOf());
  assert.equal(raw.status, 'failed');
  assert.equal(raw.error?.message, 'ab\uFFFD');
});

test('a stage that throws something else fails the job without telling its inside', async () => {
  const raw = await createHarness(db, {
    images: { ...noImages, processRemote: () => Promise.reject(new Error('secret inside')) },
  }).process(payloadOf());
  assert.equal(raw.status, 'failed');
  assert.equal(raw.error?.code, 'internal_error');
  assert.ok(!raw.error?.message.includes('secret'));
});

/** How a claim is lost: the job is pending again, or another worker has it already. */
const losses = {
  'to the queue': () => ({ status: 'pending' as const }),
  'to another worker': () => ({ attempt: sql<number>`attempt + 1` }),
};

/** All that stages write, and the statuses. */
async function everything() {
  return {
    raws: await db.selectFrom('raw_data').selectAll().orderBy('id').execute(),
    listings: await db.selectFrom('property_listings').selectAll().orderBy('id').execute(),
    currents: await db.selectFrom('listing_payloads').selectAll().orderBy('raw_id').execute(),
    snapshots: await db.selectFrom('listing_snapshots').selectAll().orderBy('id').execute(),
    enrichments: await db.selectFrom('listing_enrichments').selectAll().execute(),
  };
}

for (const [whereTo, loss] of Object.entries(losses)) {
  for (const moment of ['generateObject', 'processRemote', 'embed'] as const) {
    test(`a claim lost ${whereTo} during ${moment}: nothing more is written`, async () => {
      const rawId = await store(db, payloadOf());
      let before: Awaited<ReturnType<typeof everything>> | undefined;
      const pass = async (now: typeof moment) => {
        if (now !== moment) return;
        await db.updateTable('raw_data').set(loss()).where('id', '=', rawId).execute();
        before = await everything();
      };
      const model = countedModel();
      const outcome = await createHarness(db, {
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
      }).runNext();
      assert.equal(outcome, 'lost');
      assert.ok(before);
      assert.deepEqual(await everything(), before);
      await db.deleteFrom('raw_data').where('id', '=', rawId).execute();
    });
  }
}

for (const moment of ['processRemote', 'embed'] as const) {
  test(`a listing made from a newer payload during ${moment} is left as that made it`, async () => {
    const payload = payloadOf({ title: 'Стара', price: 1000, currency: 'USD', area_total: 50 });
    const older = await store(db, payload);
    let before: Awaited<ReturnType<typeof everything>> | undefined;
    const pass = async (now: typeof moment) => {
      if (now !== moment) return;
      // As if it had been committed before the older one was, which has the smaller id.
      await db.updateTable('raw_data').set({ status: 'failed' }).where('id', '=', older).execute();
      const newer = await store(db, { ...payload, title: 'Нова', price: 900 });
      await createHarness(db).runNext();
      await db
        .updateTable('raw_data')
        .set({ status: 'processing' })
        .where('id', '=', older)
        .execute();
      assert.equal((await currentOf(db, payload))?.raw_id, newer);
      before = await everything();
    };
    const model = countedModel();
    const outcome = await createHarness(db, {
      model: {
        ...model,
        async embed(texts, options) {
          await pass('embed');
          return model.embed(texts, options);
        },
      },
      images: {
        ...noImages,
        async processRemote() {
          await pass('processRemote');
          return [];
        },
      },
    }).runNext();
    assert.equal(outcome, 'completed');
    const now = await everything();
    assert.ok(before);
    assert.deepEqual({ ...now, raws: [] }, { ...before, raws: [] });
    const ending = moment === 'embed' ? 'embed' : 'enrich';
    assert.equal(outcomes(await rawRecord(db, older))[ending], 'superseded');
  });
}

test('a payload that said nothing new meanwhile keeps its listing from an older one', async () => {
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
        assert.deepEqual(outcomes(await createHarness(db).process(payload)), { load: 'unchanged' });
        await setStatus('processing');
        return model.generateObject(request);
      },
    },
  }).runNext();
  assert.equal(outcomes(await rawRecord(db, older))['upsert'], 'superseded');
  assert.equal((await listingOf(db, payload))?.price, 1000);
});

test('pictures of a listing made from a newer payload meanwhile end the job', async () => {
  const fence = { rawId: 1, attempt: 1 };
  const images = { ...noImages, processRemote: () => Promise.reject(new SupersededError(fence)) };
  const raw = await createHarness(db, { images }).process(payloadOf());
  assert.equal(raw.status, 'completed');
  assert.equal(outcomes(raw)['images'], 'superseded');
});

test('another embedding model makes another embedding of the same text', async () => {
  const payload = payloadOf();
  await createHarness(db).process(payload);
  const model = countedModel();
  const renamed = {
    ...model,
    embeddingModel: 'another',
    embed: async (...call: Parameters<typeof model.embed>) => ({
      ...(await model.embed(...call)),
      model: 'another',
    }),
  };
  const raw = await createHarness(db, { model: renamed }).process({
    ...payload,
    contact_name: 'Оксана',
  });
  assert.equal(outcomes(raw)['embed'], 'done');
  assert.equal((await listingOf(db, payload))?.embedding_model, 'another');
});

test('a payload that failed after its update does not let the one before pass as unchanged', async () => {
  const payload = payloadOf({ price: 100 });
  const harness = createHarness(db);
  await harness.process(payload);
  const broken = { ...noImages, processRemote: () => Promise.reject(new Error('broken')) };
  const failed = await createHarness(db, { images: broken }).process({ ...payload, price: 90 });
  assert.equal(failed.status, 'failed');
  assert.equal((await listingOf(db, payload))?.price, 90);
  const again = await harness.process(payload);
  assert.equal(outcomes(again)['upsert'], 'done');
  assert.equal((await listingOf(db, payload))?.price, 100);
});

test('a text that was in an outage is embedded by itself', async () => {
  const model = countedModel();
  const asked: number[] = [];
  let isUp = false;
  const embed: typeof model.embed = async (texts, options) => {
    asked.push(texts.length);
    // Texts wait for those of other jobs for a share of what the last request took.
    await sleep(400);
    if (isUp) return model.embed(texts, options);
    throw Object.assign(new ModelError('MODEL_UNAVAILABLE', 'It crashed.'), { outage });
  };
  const meeting = Promise.withResolvers<void>();
  let present = 0;
  const images = {
    ...noImages,
    // All jobs go on to their embedding together.
    processRemote: async () => {
      present += 1;
      if (present === 2) meeting.resolve();
      if (isUp) await meeting.promise;
      return [];
    },
  };
  const harness = createHarness(db, { images, model: { ...model, embed } });
  const payloads = [payloadOf(), payloadOf()];
  const both = () => Promise.all([harness.runNext(), harness.runNext()]);

  for (const payload of payloads) await store(db, payload);
  assert.equal(await harness.runNext(), 'postponed');
  [isUp, present] = [true, 0];
  assert.deepEqual(await both(), ['completed', 'completed']);
  assert.deepEqual(asked, [1, 1, 1]);
});
