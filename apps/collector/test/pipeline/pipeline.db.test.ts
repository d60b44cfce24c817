import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModelError, type ModelClient } from '@oselya/model';
import { sql } from 'kysely';
import type { Provenance } from '../../src/listing/provenance.ts';
import { buildSearchText } from '../../src/pipeline/listing-state.ts';
import { resolveStoredPlaces } from '../../src/places/backfill.ts';
import { createStems, STEMS_VERSION } from '../../src/search/listing-stems.ts';
import {
  createCountingModel,
  createHarness,
  findListing,
  emptyImageService,
  openDatabase,
  getOutcomes,
  createPayload,
  readRawRecord,
  readSnapshots,
  store,
  updateRawRecord,
  readEnrichments,
} from '../support/pipeline.ts';

const { db } = await openDatabase();

test('An HTML payload is read, stored and found as text, and kept unchanged', async () => {
  const model = createCountingModel();
  const requests: unknown[] = [];
  const generateObject: typeof model.generateObject = (request) => {
    requests.push(request.data);
    return model.generateObject(request);
  };
  const payload = createPayload({
    title: 'Квартира &laquo;Люкс&raquo;',
    description:
      '<p>Продам двокімнатну квартиру у&nbsp;Львові</p><ul><li>Ціна 49&nbsp;900&nbsp;$</li><li>54&nbsp;м&sup2;</li></ul>',
    published_at: '2025-03-01T10:00:00+23:30',
  });
  const harness = createHarness(db, { model: { ...model, generateObject } });
  const rawRecord = await harness.process(payload);
  assert.equal(rawRecord.status, 'completed', JSON.stringify(rawRecord.error));
  const title = 'Квартира «Люкс»';
  const description = 'Продам двокімнатну квартиру у Львові\nЦіна 49 900 $\n54 м²';
  assert.deepEqual(requests, [{ ...payload, title, description }]);
  const listing = await findListing(db, payload);
  assert.deepEqual(
    [listing?.title, listing?.description, listing?.price, listing?.currency, listing?.area_total],
    [title, description, 49_900, 'USD', 54],
  );
  assert.deepEqual(listing?.published_at, new Date('2025-02-28T10:30:00.000Z'));
  assert.doesNotMatch(listing?.search_text ?? '', /nbsp|laquo|\bli\b/);
  assert.deepEqual(rawRecord.payload, payload);
  const { fields } = (await readEnrichments(db, rawRecord.listing_id))['provenance'] as Provenance;
  const decodedOrigin = { origin: 'rule', rule: 'plain_text', of: 'source' };
  assert.deepEqual([fields['title'], fields['description']], [decodedOrigin, decodedOrigin]);
  assert.deepEqual(getOutcomes(await harness.process(payload)), { load: 'unchanged' });
  // The same text with different markup is not a change.
  const plainRecord = await harness.process({ ...payload, title, description });
  assert.equal(getOutcomes(plainRecord)['validate'], 'done');
  assert.equal((await readSnapshots(db, rawRecord.listing_id)).length, 1);
});

test('A payload that is not a listing is invalid, with the reason', async () => {
  const payload = createPayload({
    title: 'Ремонт телефонів',
    description: 'Ремонтуємо телефони та ноутбуки, швидко і недорого. Виїзд майстра.',
  });
  const rawRecord = await createHarness(db).process(payload);
  assert.equal(rawRecord.status, 'invalid');
  assert.equal(rawRecord.error?.code, 'not_a_listing');
  assert.ok(rawRecord.error?.message);
  assert.deepEqual(getOutcomes(rawRecord), { load: 'done', validate: 'invalid' });
  assert.equal(await findListing(db, payload), undefined);
  // The model extracts an invalid payload again when it is sent again.
  const model = createCountingModel();
  assert.equal((await createHarness(db, { model }).process(payload)).status, 'invalid');
  assert.deepEqual(model.calls, { chat: 1, embed: 0 });
  const generateImproved: typeof model.generateObject = async (request) => {
    const answer = await model.generateObject(request);
    Object.assign(answer.value, { is_listing: true });
    return answer;
  };
  const thirdRecord = await createHarness(db, {
    model: { ...model, generateObject: generateImproved },
  }).process(payload);
  assert.equal(thirdRecord.status, 'completed');
  assert.equal((await findListing(db, payload))?.id, thirdRecord.listing_id);
});

test('A fact that a payload lacks now is removed', async () => {
  const harness = createHarness(db);
  const payload = createPayload({ title: 'Квартира', description: 'Продам квартиру у Львові.' });
  const pricedPayload = { ...payload, price: 50_000, currency: 'USD', area_total: 50 };
  const { listing_id: id } = await harness.process(pricedPayload);
  await harness.process(payload);
  const { price, currency, area_total } = (await findListing(db, payload)) ?? {};
  assert.deepEqual([price, currency, area_total], [null, null, null]);
  const { fields } = (await readEnrichments(db, id))['provenance'] as Provenance;
  assert.deepEqual([fields['price'], fields['price_per_m2']], [undefined, undefined]);
});

test('A changed price is in the snapshot, and an equal text is not embedded again', async () => {
  const model = createCountingModel();
  const harness = createHarness(db, { model });
  const payload = createPayload({ price: 62_000, currency: 'USD', city: 'Львів' });
  const first = await harness.process(payload);
  // The embedded summary contains the price, so a new price needs a new embedding.
  const summary = (await findListing(db, payload))?.summary;
  const second = await harness.process({ ...payload, price: 59_000 });
  const thirdRecord = await harness.process({ ...payload, price: 59_000, contact_name: 'Оксана' });
  assert.equal(second.listing_id, first.listing_id);
  const snapshots = await readSnapshots(db, first.listing_id);
  assert.deepEqual(
    snapshots.map(({ changes }) => changes['price']),
    [undefined, { from: 62_000, to: 59_000 }, undefined],
  );
  assert.deepEqual(snapshots[2]?.changes, { contact_name: { from: null, to: 'Оксана' } });
  assert.equal((await findListing(db, payload))?.price, 59_000);
  assert.notEqual((await findListing(db, payload))?.summary, summary);
  assert.equal(getOutcomes(second)['embed'], 'done');
  assert.equal(getOutcomes(thirdRecord)['embed'], 'skipped');
  assert.deepEqual(model.calls, { chat: 3, embed: 2 });
});

test('A listing has its place, and is found by the written and the canonical names', async () => {
  const payload = createPayload({ city: 'Киев', district: 'Оболонь' });
  const rawRecord = await createHarness(db).process(payload);
  assert.equal(rawRecord.status, 'completed', JSON.stringify(rawRecord.error));
  const listing = await findListing(db, payload);
  assert.partialDeepStrictEqual(listing, {
    city: 'Київ',
    city_key: 'київ',
    district: 'Оболонь',
    district_key: 'оболонь',
    place_text: 'Киев, Оболонь',
    place_status: 'resolved',
  });
  assert.equal(listing?.place_id, listing?.place_path?.[0]);
  for (const word of ['киев', 'київ']) assert.match(listing?.search_text ?? '', RegExp(word));
});

test('A new and a changed payload leave no stems for the upkeep, and the price before', async () => {
  const payload = createPayload({ title: 'Світла оселя', price: 50_000, currency: 'USD' });
  const harness = createHarness(db);
  const readIndexed = async () => {
    const listing = await findListing(db, payload);
    const { rows } = await sql<{ price_before: number | null; isIndexed: boolean }>`
      select price_before, stems_version = ${STEMS_VERSION} and stems @@ '^svitl' and stems = ${createStems(listing ?? {})}::tsvector
        as "isIndexed"
      from listing_index where id = ${listing?.id}`.execute(db);
    return rows;
  };
  await harness.process(payload);
  assert.deepEqual(await readIndexed(), [{ price_before: null, isIndexed: true }]);
  await harness.process({ ...payload, price: 47_000 });
  assert.deepEqual(await readIndexed(), [{ price_before: 50_000, isIndexed: true }]);
});

test('The upkeep resolves the places of older listings, which is no change of them', async () => {
  const model = createCountingModel();
  const harness = createHarness(db, { model });
  const payload = createPayload({
    city: 'Николаев',
    district: 'Соляные',
    price: 1,
    currency: 'USD',
  });
  const { listing_id: id } = await harness.process(payload);
  const newListing = await findListing(db, payload);
  // The state of the listing before migration 0028.
  await sql`update property_listings set city = 'Николаев', city_key = 'николаев', district = 'Соляные',
    district_key = null, place_id = null, place_path = null, place_text = null, place_status = null,
    search_text = replace(search_text, 'миколаїв', '')
    where id = ${id}`.execute(db);
  await sql`update listing_snapshots
    set listing = listing || '{"city": "Николаев", "district": "Соляные"}'
    where listing_id = ${id}`.execute(db);
  const countRows = async () => {
    const { rows } = await sql`select (select count(*) from listing_snapshots) as snapshots,
      (select count(*) from listing_changes) as changes`.execute(db);
    return rows;
  };
  const rowsBefore = await countRows();
  assert.equal(await resolveStoredPlaces(db, AbortSignal.abort()), 0);
  assert.equal((await findListing(db, payload))?.place_status, null);
  assert.ok((await resolveStoredPlaces(db, new AbortController().signal)) >= 1);
  assert.deepEqual(await findListing(db, payload), newListing);
  assert.equal(await resolveStoredPlaces(db, new AbortController().signal), 0);
  assert.deepEqual(await countRows(), rowsBefore);

  // The next payload does not report the canonical names as a change.
  const nextRecord = await harness.process({ ...payload, contact_name: 'Оксана' });
  assert.equal(getOutcomes(nextRecord)['embed'], 'skipped');
  const changes = (await readSnapshots(db, id)).at(-1)?.changes;
  assert.deepEqual(changes, { contact_name: { from: null, to: 'Оксана' } });
});

test('Each field that a payload changes is in its snapshot', async () => {
  const harness = createHarness(db);
  const payload = createPayload({
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
  const changes = (await readSnapshots(db, id))[1]?.changes ?? {};
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

test('A change of wording by the model makes no snapshot, and is in the next one', async () => {
  const mock = createCountingModel();
  let callCount = 0;
  const generateObject: ModelClient['generateObject'] = async (request) => {
    callCount += 1;
    const answer = await mock.generateObject(request);
    const words = {
      title: `Flat ${callCount}`,
      summary: `In words ${callCount}`,
      features: [`f${callCount}`],
    };
    Object.assign(answer.value, words);
    return answer;
  };
  const harness = createHarness(db, { model: { ...mock, generateObject } });
  const { title: _title, ...payload } = createPayload({ price: 62_000, currency: 'USD' });
  const { listing_id: id } = await harness.process(payload);
  // The source sends the same texts and, after rounding, the same price.
  const second = await harness.process({ ...payload, price: 62_000.001 });
  assert.equal(getOutcomes(second)['snapshot'], 'skipped');
  assert.equal((await findListing(db, payload))?.title, 'Flat 2');
  await harness.process({ ...payload, price: 60_000 });
  assert.deepEqual(
    (await readSnapshots(db, id)).map(({ changes }) => changes),
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
  const sourceTitle = 'The source names it';
  const titles = async () => (await readSnapshots(db, id)).map(({ changes }) => changes['title']);
  assert.deepEqual((await titles())[2], { from: 'Flat 3', to: sourceTitle });
  // The loss of the source title counts as a change. A title that the model rewords does not.
  await harness.process({ ...payload, price: 60_000 });
  assert.deepEqual((await titles())[3], { from: sourceTitle, to: 'Flat 5' });
  await harness.process({ ...payload, price: 60_000.001 });
  assert.equal((await titles()).length, 4);
});

/** Reads the version of a listing's row, which every update changes. */
async function readVersion(listingId: number | null): Promise<unknown> {
  const { rows } = await sql`select xmin::text, ctid::text from property_listings
    where id = ${listingId}`.execute(db);
  return rows[0];
}

test('A repeated attempt with the same result completes the payload without an update of the row', async () => {
  const payload = createPayload({
    price: 100,
    phones: ['+380501234567'],
    attributes: { lift: true },
  });
  let isAway = true;
  const outage = new ModelError('MODEL_BREAKER_OPEN', 'The server is being left alone.');
  const images = {
    ...emptyImageService,
    processRemote: () => (isAway ? Promise.reject(outage) : Promise.resolve([])),
  };
  const harness = createHarness(db, { images });
  assert.equal((await harness.process(payload)).status, 'pending');
  const createdListing = await findListing(db, payload);
  const version = await readVersion(createdListing?.id ?? null);
  assert.ok(version);
  for (let attempt = 0; attempt < 2; attempt += 1)
    assert.equal(await harness.runNext(), 'returned');
  assert.deepEqual(await readVersion(createdListing?.id ?? null), version);
  isAway = false;
  assert.equal(await harness.runNext(), 'completed');
  const listing = await findListing(db, payload);
  assert.deepEqual(listing?.updated_at, createdListing?.updated_at);
  assert.ok(listing?.embedding, 'an embedding does not change the listing');
  assert.equal((await readSnapshots(db, listing.id)).length, 1);
  // A payload that differs only in its images updates the row.
  await harness.process({ ...payload, image_urls: ['https://images.example/1.jpg'] });
  const laterListing = await findListing(db, payload);
  assert.ok(laterListing && laterListing.updated_at > listing.updated_at);
});

test('After a payload fails past its update, the previous payload is processed again', async () => {
  const payload = createPayload({ price: 100 });
  const harness = createHarness(db);
  await harness.process(payload);
  const brokenImages = {
    ...emptyImageService,
    processRemote: () => Promise.reject(new Error('broken')),
  };
  const failedRecord = await createHarness(db, { images: brokenImages }).process({
    ...payload,
    price: 90,
  });
  assert.equal(failedRecord.status, 'failed');
  assert.equal((await findListing(db, payload))?.price, 90);
  const repeatedRecord = await harness.process(payload);
  assert.equal(getOutcomes(repeatedRecord)['upsert'], 'done');
  assert.equal((await findListing(db, payload))?.price, 100);
});

test('A payload that had uploads before does not fetch its image URLs', async () => {
  const processRemote = () => Promise.reject(new Error('No URL is to be fetched'));
  const harness = createHarness(db, { images: { ...emptyImageService, processRemote } });
  const rawId = await store(db, createPayload({ image_urls: ['http://images.example/1.jpg'] }));
  await updateRawRecord(db, rawId, { uploads: '[]' });
  assert.equal(await harness.runNext(), 'completed');
  assert.equal(getOutcomes(await readRawRecord(db, rawId))['images'], 'skipped');
});

const EMPTY_STATE = {
  title: null,
  summary: null,
  property_type: null,
  city: null,
  district: null,
  address: null,
  features: [],
};

// Each character has three bytes in UTF-8.
const createCharacter = (index: number) => String.fromCodePoint(0x4e00 + index);
const selectVector = (text: string) => sql`select to_tsvector('simple', ${text})`.execute(db);

test('No text is too long for PostgreSQL, even with only different words', async () => {
  // Different words make a search vector grow the most.
  const words = Array.from(
    { length: 400_000 },
    (_, index) =>
      createCharacter(index % 20_000) +
      (index < 20_000 ? '' : createCharacter(Math.trunc(index / 20_000))),
  );
  const description = words.join(' ');
  await assert.rejects(selectVector(description), /too long for tsvector/);
  await selectVector(buildSearchText({ ...EMPTY_STATE, description }));
});
