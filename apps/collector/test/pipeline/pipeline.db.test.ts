import assert from 'node:assert/strict';
import { test } from 'node:test';
import { extractionPrompt } from '../../src/pipeline/extraction.ts';
import type { Provenance } from '../../src/listing/provenance.ts';

import { createStages } from '../../src/pipeline/pipeline.ts';
import {
  openDatabase,
  rawRecord,
  payloadOf,
  countedModel,
  createHarness,
  currentOf,
  listingOf,
  outcomesOf,
  snapshotsOf,
} from '../support/pipeline.ts';

const { db } = await openDatabase();

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

test('a stage that asks the database has longer than an outage takes to be told', () => {
  const told = 30_000 + 10_000;
  const asking = createStages(1000).filter(
    ({ name }) => name !== 'validate' && name !== 'normalize',
  );
  assert.equal(asking.length, 6);
  for (const { name, timeoutMs } of asking) assert.ok(timeoutMs > 2 * told, name);
});

test('the pictures of a payload may all take as long as the model may, one after another', () => {
  const modelMs = 120_000;
  const images = createStages(modelMs).find(({ name }) => name === 'images');
  assert.ok(images && images.timeoutMs > 50 * modelMs + 2 * modelMs);
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
  assert.deepEqual(outcomesOf(raw), {
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

  const snapshots = await snapshotsOf(db, listing.id);
  assert.equal(snapshots.length, 1);
  assert.deepEqual(snapshots[0]?.changes, {});
  assert.equal(snapshots[0]?.model, 'mock');
  assert.equal(snapshots[0]?.prompt_version, extractionPrompt.version);
  const { fields, ...made } = (await enrichmentsOf(listing.id))['provenance'] as Provenance;
  assert.deepEqual(made, {
    raw_id: raw.id,
    model: 'mock',
    requested_model: 'mock',
    prompt_version: extractionPrompt.version,
  });
  assert.deepEqual(fields['price'], { origin: 'payload' });
  assert.deepEqual(fields['rooms'], { origin: 'model' });
  assert.deepEqual(fields['price_per_m2'], { origin: 'rule', rule: 'price_by_area' });
});

test('a payload of HTML is read, stored and found as its text, and kept as it came', async () => {
  const model = countedModel();
  const asked: unknown[] = [];
  const generateObject: typeof model.generateObject = (request) => {
    asked.push(request.data);
    return model.generateObject(request);
  };
  const payload = payloadOf({
    title: 'Квартира &laquo;Люкс&raquo;',
    description:
      '<p>Продам двокімнатну квартиру у&nbsp;Львові</p><ul><li>Ціна 49&nbsp;900&nbsp;$</li><li>54&nbsp;м&sup2;</li></ul>',
  });
  const harness = createHarness(db, { model: { ...model, generateObject } });
  const raw = await harness.process(payload);
  assert.equal(raw.status, 'completed', JSON.stringify(raw.error));
  const title = 'Квартира «Люкс»';
  const description = 'Продам двокімнатну квартиру у Львові\nЦіна 49 900 $\n54 м²';
  assert.deepEqual(asked, [{ ...payload, title, description }]);
  const listing = await listingOf(db, payload);
  assert.deepEqual(
    [listing?.title, listing?.description, listing?.price, listing?.currency, listing?.area_total],
    [title, description, 49_900, 'USD', 54],
  );
  assert.doesNotMatch(listing?.search_text ?? '', /nbsp|laquo|\bli\b/);
  assert.deepEqual(raw.payload, payload);
  const { fields } = (await enrichmentsOf(raw.listing_id))['provenance'] as Provenance;
  const decoded = { origin: 'rule', rule: 'plain_text', of: 'payload' };
  assert.deepEqual([fields['title'], fields['description']], [decoded, decoded]);
  assert.deepEqual(outcomesOf(await harness.process(payload)), { load: 'unchanged' });
  // The same text in other markup says nothing new of the listing.
  const plain = await harness.process({ ...payload, title, description });
  assert.equal(outcomesOf(plain)['validate'], 'done');
  assert.equal((await snapshotsOf(db, raw.listing_id)).length, 1);
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
  assert.deepEqual(outcomesOf(raw), { load: 'done', validate: 'invalid' });
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
  const snapshots = await snapshotsOf(db, first.listing_id);
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
  await harness.process(payload);
  const { price, currency, area_total } = (await listingOf(db, payload)) ?? {};
  assert.deepEqual([price, currency, area_total], [null, null, null]);
  const { fields } = (await enrichmentsOf(id))['provenance'] as Provenance;
  assert.deepEqual([fields['price'], fields['price_per_m2']], [undefined, undefined]);
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
  assert.equal(outcomesOf(raw)['embed'], 'done');
  assert.equal((await listingOf(db, payload))?.embedding_model, 'another');
});
