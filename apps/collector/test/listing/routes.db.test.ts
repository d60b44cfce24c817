import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import type { Provenance } from '../../src/listing/provenance.ts';
import { storeRates } from '../../src/money/rates.ts';
import { extractionPrompt } from '../../src/pipeline/extraction.ts';
import { processPayload, type RawRecord, readPages, startCollector } from '../support/collector.ts';
import { until } from '@oselya/testing';
import {
  openDatabase,
  createPayload,
  updateRawRecord,
  waitUntilCompleted,
} from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const collector = await startCollector(database);

/** Sends a payload, waits until its job ends, and checks that it is completed. Returns the raw record. */
async function processCompletely(payload: object): Promise<RawRecord> {
  const rawRecord = await processPayload(collector, payload);
  assert.equal(rawRecord.status, 'completed', JSON.stringify(rawRecord.error));
  return rawRecord;
}

type Listing = Record<string, unknown> & {
  price_per_m2: number | null;
  corrections: object;
  provenance: Omit<Provenance, 'requested_model' | 'raw_id'> & { raw_id: number | null };
  duplicate_group: number | null;
  duplicates: {
    listing_id: number;
    score: number;
    reasons: { reason: string; part: number; detail: string }[];
  }[];
};

type Snapshot = {
  raw_id: number;
  changes: object;
  listing: { price: number };
  model: string;
  prompt_version: string;
};

const readListing = async (id: number) =>
  (await collector.get(`/api/v1/listings/${id}`)).json<Listing>();
const readHistory = async (id: number) =>
  (await collector.get(`/api/v1/listings/${id}/history`)).json<Snapshot[]>();

const archive = (id: number) =>
  sql`update property_listings set archived_at = now() where id = ${id}`.execute(db);

test('A payload becomes a listing with its history and images, page by page', async () => {
  const payload = createPayload({
    price: 62_000,
    currency: 'USD',
    image_urls: [1, 2, 3].map((position) => `http://127.0.0.1:9/${position}.jpg`),
  });
  const firstRecord = await processCompletely(payload);
  const secondRecord = await processCompletely({ ...payload, price: 60_000 });
  assert.equal(secondRecord.listing_id, firstRecord.listing_id);
  const listing = await readListing(firstRecord.listing_id);
  assert.partialDeepStrictEqual(listing, {
    listing_id: firstRecord.listing_id,
    external_id: payload.external_id,
    price: 60_000,
    rooms: 2,
    archived_at: null,
  });
  assert.ok(!('embedding' in listing));
  assert.partialDeepStrictEqual(listing['previous_price'], { price: 62_000, currency: 'USD' });
  assert.equal(listing['first_seen_at'], listing['created_at']);
  const search = await collector.post('/api/v1/search/browse', { limit: 1 });
  const { items } = search.json<{ items: { listing: Listing }[] }>();
  assert.partialDeepStrictEqual(listing, items[0]?.listing, 'searches have the same members');

  const history = await readHistory(firstRecord.listing_id);
  const extraction = { model: 'mock', prompt_version: extractionPrompt.version };
  assert.equal(history.length, 2);
  assert.partialDeepStrictEqual(history, [
    { raw_id: secondRecord.raw_id, listing: { price: 60_000 }, ...extraction },
    { raw_id: firstRecord.raw_id, listing: { price: 62_000 }, ...extraction },
  ]);
  assert.deepEqual(history[0]?.changes, { price: { from: 62_000, to: 60_000 } });

  const listingPath = `/api/v1/listings/${firstRecord.listing_id}`;
  const images = (await collector.get(`${listingPath}/images`)).json<
    { position: number; url: string; sha256: null; error: string }[]
  >();
  assert.deepEqual(
    images.map(({ position, url, sha256 }) => [position, url, sha256]),
    payload.image_urls?.map((url, position) => [position, url, null]),
  );
  assert.ok(images[0]?.error, 'an address of this machine is rejected with the reason');

  assert.deepEqual(await readPages(collector, `${listingPath}/history?limit=1`), [
    [history[0]],
    [history[1]],
  ]);
  assert.deepEqual(await readPages(collector, `${listingPath}/images?limit=2`), [
    images.slice(0, 2),
    images.slice(2),
  ]);
  // Larger than any position that the column can hold.
  const oversizedCursor = Buffer.from('2147483648').toString('base64url');
  for (const path of [
    'history?limit=0',
    'images?limit=0',
    `images?cursor=${oversizedCursor}`,
    'history?cursor=7',
  ]) {
    assert.equal((await collector.get(`${listingPath}/${path}`)).status, 422, path);
  }
});

test('The word for a property type is kept, and an unknown one is found by words', async () => {
  const house = await processCompletely(createPayload({ property_type: 'Таунхаус' }));
  const { property_type, property_type_text } = await readListing(house.listing_id);
  assert.deepEqual([property_type, property_type_text], ['house', 'Таунхаус']);
  const payload = createPayload({ property_type: 'Лицарський замок' });
  const castle = await processCompletely(payload);
  const listing = await readListing(castle.listing_id);
  const { fields } = listing.provenance;
  assert.deepEqual(
    [listing['property_type'], listing['property_type_text']],
    [null, 'Лицарський замок'],
  );
  assert.deepEqual(fields['property_type'], createRuleOrigin('unknown_type', 'source'));
  const search = await collector.post('/api/v1/search/fulltext', { query: 'лицарський замок' });
  const { items } = search.json<{ items: { listing: { listing_id: number } }[] }>();
  assert.deepEqual(
    items.map((item) => item.listing.listing_id),
    [castle.listing_id],
  );
});

test('A listing has its price in the requested currency too', async () => {
  const payload = createPayload({ price: 62_000, currency: 'USD' });
  const { listing_id: id } = await processCompletely(payload);
  assert.equal((await readListing(id))['price_converted'], null);
  await storeRates(db, [{ date: '2026-11-20', currency: 'USD', rate: 44.5 }]);
  const response = await collector.get(`/api/v1/listings/${id}?currency=UAH`);
  const { price, currency, price_converted } = response.json<Listing>();
  assert.deepEqual([price, currency], [62_000, 'USD']);
  const expected = { amount: 2_759_000, currency: 'UAH', rate_date: '2026-11-20' };
  assert.deepEqual(price_converted, expected);
  for (const code of ['usd', 'JPY']) {
    const rejection = await collector.get(`/api/v1/listings/${id}?currency=${code}`);
    const { errors } = rejection.json<{ errors: { path: string }[] }>();
    assert.deepEqual([rejection.status, errors[0]?.path], [422, 'querystring/currency']);
  }
});

test('An unknown listing is 404 on every route', async () => {
  for (const path of ['', '/history', '/images']) {
    const response = await collector.get(`/api/v1/listings/999999${path}`);
    assert.equal(response.status, 404);
    assert.equal(response.json<{ code: string }>().code, 'listing_not_found');
  }
});

test('A year of construction is read or provided, answered, searched and tracked', async () => {
  const description = 'Продам двокімнатну квартиру у Львові, цегляний будинок 1985 року побудови.';
  const payload = createPayload({ external_id: 'year', description });
  const { listing_id: id } = await processCompletely(payload);
  assert.equal((await readListing(id))['year_built'], 1985);
  await processCompletely({ ...payload, year_built: 1986 });
  assert.deepEqual((await readHistory(id))[0]?.changes, { year_built: { from: 1985, to: 1986 } });
  const response = await collector.post('/api/v1/search/fulltext', { query: 'цегляний' });
  const { items } = response.json<{ items: { listing: Record<string, unknown> }[] }>();
  assert.deepEqual(
    items.map(({ listing }) => [listing['listing_id'], listing['year_built']]),
    [[id, 1986]],
  );
  assert.equal((await collector.post('/api/v1/ingest', { ...payload, year_built: 1 })).status, 422);
});

test('A price per square metre is provided, read or computed, and searches filter by the same value', async () => {
  const payload = createPayload({ area_total: 50, currency: 'USD', deal_type: 'sale' });
  const read = async (fields: object) => {
    const raw = await processCompletely({ ...payload, ...fields });
    const { price_per_m2: price, provenance } = await readListing(raw.listing_id);
    const filters = { deal_type: 'sale', price_per_m2_min: price, price_per_m2_max: price };
    const response = await collector.post('/api/v1/search/fulltext', {
      query: 'Львів',
      ...filters,
    });
    const { items } = response.json<{ items: { listing: Listing }[] }>();
    assert.ok(items.some(({ listing }) => listing.listing_id === raw.listing_id));
    assert.ok(items.every(({ listing }) => listing.price_per_m2 === price));
    return [price, provenance.fields['price_per_m2']];
  };
  const description = 'Продам квартиру у Львові, 50 м², по 1 150 $ за м².';
  const byArea = createRuleOrigin('price_by_area');
  assert.deepEqual(await read({ price: 60_000 }), [1200, byArea]);
  assert.deepEqual(await read({ price: 60_000, price_per_m2: 1250 }), [1250, { origin: 'source' }]);
  assert.deepEqual(await read({ description }), [1150, { origin: 'model' }]);
  assert.deepEqual(await read({ price: 600, area_total: 40.16 }), [14.94, byArea]);
});

test('A text with several offers is counted in the listing, in searches and in its record', async () => {
  const description =
    'Продам або здам будинок-бунгало у Фастові, 86 м². Продаж 42 000 $, оренда 9 000 грн/міс.';
  const payload = createPayload({ external_id: 'two-offers', title: 'Бунгало', description });
  const raw = await processCompletely(payload);
  assert.equal((await readListing(raw.listing_id))['offers'], 2);
  const readRecord = async (rawId: number) =>
    (await collector.get(`/api/v1/raw/${rawId}`)).json<{ offers: number | null }>();
  assert.equal((await readRecord(raw.raw_id)).offers, 2);
  const response = await collector.post('/api/v1/search/fulltext', { query: 'бунгало' });
  const { items } = response.json<{ items: { listing: Record<string, unknown> }[] }>();
  assert.deepEqual(
    items.map(({ listing }) => listing['offers']),
    [2],
  );
  const single = await processCompletely(createPayload());
  assert.equal((await readRecord(single.raw_id)).offers, null);
});

/** Creates the origin of a value that a rule changed or omitted. */
const createRuleOrigin = (rule: string, of?: string) => ({
  origin: 'rule',
  rule,
  ...(of && { of }),
});

test('Every field has an origin: its payload, the model or a rule', async () => {
  const payload = createPayload({
    title: ' Двокімнатна квартира ',
    property_type: 'Apartment',
    price: 62_000.019,
    floor: 9,
    floors_total: 5,
  });
  const rawRecord = await processCompletely(payload);
  const { provenance, ...listing } = await readListing(rawRecord.listing_id);
  const { fields, ...origin } = provenance;
  assert.deepEqual(origin, {
    raw_id: rawRecord.raw_id,
    model: 'mock',
    prompt_version: extractionPrompt.version,
  });
  assert.partialDeepStrictEqual(fields, {
    title: createRuleOrigin('cleaned', 'source'),
    description: { origin: 'source' },
    rooms: { origin: 'model' },
    property_type: createRuleOrigin('known_type', 'source'),
    price: createRuleOrigin('rounded', 'source'),
    floor: createRuleOrigin('contradiction', 'source'),
    price_per_m2: createRuleOrigin('price_by_area'),
    place: createRuleOrigin('place_by_names'),
  });
  assert.equal(listing.price_per_m2, 1148.15);
  const update = { area_total: null };
  await db
    .updateTable('property_listings')
    .set(update)
    .where('id', '=', rawRecord.listing_id)
    .execute();
  assert.equal((await readListing(rawRecord.listing_id)).price_per_m2, null);
  assert.deepEqual([listing['floor'], listing['floors_total']], [null, null]);
  const identityFields =
    'listing_id source_slug external_id image_count duplicate_count first_seen_at created_at updated_at'.split(
      ' ',
    );
  for (const [key, value] of Object.entries(listing)) {
    const isEmpty = ['null', '[]', '{}'].includes(JSON.stringify(value));
    if (!identityFields.includes(key) && !isEmpty) assert.ok(fields[key], `${key} has no origin`);
  }
});

test('The origin is the last payload with the content, and null once that was removed', async () => {
  const payload = createPayload({ price: 100, currency: 'USD' });
  const firstRecord = await processCompletely(payload);
  const getOriginId = async () => (await readListing(firstRecord.listing_id)).provenance.raw_id;
  const secondRecord = await processCompletely({ ...payload, price: 90 });
  assert.equal(await getOriginId(), secondRecord.raw_id);
  const thirdRecord = await processCompletely({ ...payload, price: 90 });
  assert.equal(await getOriginId(), thirdRecord.raw_id);
  for (const [deletedRecord, expectedId] of [
    [secondRecord, thirdRecord.raw_id],
    [thirdRecord, null],
  ] as const) {
    await db.deleteFrom('raw_data').where('id', '=', deletedRecord.raw_id).execute();
    assert.equal(await getOriginId(), expectedId);
  }
});

test('The cost of a payload is in its record and in the metrics', async () => {
  const countTokens = async (direction: string) => {
    const line = `collector_model_tokens_total{.*direction="${direction}".*} (\\d+)`;
    const lines = (await collector.get('/metrics')).text.matchAll(new RegExp(line, 'g'));
    return [...lines].reduce((sum, [, count]) => sum + Number(count), 0);
  };
  const tokensBefore = [await countTokens('input'), await countTokens('output')];
  const { model_usage: usage } = await processCompletely(createPayload());
  assert.ok(usage !== null && usage.input_tokens > 0);
  const { calls, input_tokens: input, output_tokens: output } = usage;
  const tokensAfter = [await countTokens('input'), await countTokens('output')];
  assert.deepEqual(
    [calls, ...tokensAfter],
    [2, (tokensBefore[0] ?? 0) + input, (tokensBefore[1] ?? 0) + output],
  );
});

test('A correction holds against later payloads, is found at once, and can be undone', async () => {
  const payload = createPayload({
    description: 'Продам квартиру, словодляправки, 2 кімнати',
    city: 'Львів',
    price: 62_000,
    currency: 'USD',
    floor: 3,
    latitude: 49.8,
    longitude: 24,
  });
  const { listing_id: id } = await processCompletely(payload);
  const path = `/api/v1/listings/${id}`;
  const readHash = async () =>
    (
      await db
        .selectFrom('property_listings')
        .select('embedding_text_hash')
        .where('id', '=', id)
        .executeTakeFirstOrThrow()
    ).embedding_text_hash;
  const hashBefore = await readHash();
  const { cursor } = (await collector.get('/api/v1/listings/changes')).json<{ cursor: string }>();
  const coordinates = { latitude: 50.45, longitude: null };
  const facts = {
    ...coordinates,
    price: 60_000.019,
    city: ' Киев',
    property_type: 'будинок',
    rooms: 3,
    floor: null,
  };
  const response = await collector.patch(path, { ...facts, by: 'Olha' });
  assert.equal(response.status, 200, response.text);
  const listing = response.json<Listing>();
  assert.deepEqual(listing, await readListing(id));
  const price = { value: 60_000.02, replaced: 62_000 };
  assert.partialDeepStrictEqual(listing.corrections, { price });

  const corrected = {
    ...coordinates,
    price: 60_000.02,
    city: 'Київ',
    property_type: 'house',
    rooms: 3,
    floor: null,
  };
  assert.partialDeepStrictEqual(listing, {
    ...corrected,
    place: { status: 'resolved', city: 'Київ', text: 'Киев' },
  });
  assert.partialDeepStrictEqual(listing.provenance.fields, {
    price: { origin: 'person' },
    city: createRuleOrigin('place_name', 'person'),
    floor: { origin: 'person' },
    currency: { origin: 'source' },
    latitude: { origin: 'person' },
  });
  assert.notEqual(await readHash(), hashBefore, 'the embedding follows');
  const query = {
    query: 'словодляправки',
    city: 'Kyiv',
    property_type: 'house',
    price_max: 61_000,
  };
  const search = await collector.post('/api/v1/search/fulltext', { ...query, currency: 'USD' });
  const { items } = search.json<{ items: { listing: { listing_id: number } }[] }>();
  assert.deepEqual(
    items.map((item) => item.listing.listing_id),
    [id],
  );

  await processCompletely({ ...payload, price: 59_000, title: 'Нова назва' });
  assert.partialDeepStrictEqual(await readListing(id), { ...corrected, title: 'Нова назва' });
  const undo = ['price', 'city', 'rooms', 'floor', 'property_type', 'latitude', 'longitude'];
  const undone = await collector.patch(path, { undo });
  const { provenance, corrections, ...restored } = undone.json<Listing>();
  assert.deepEqual(corrections, {});
  assert.partialDeepStrictEqual(restored, {
    price: 59_000,
    city: 'Львів',
    rooms: 2,
    floor: 3,
    latitude: 49.8,
    longitude: 24,
  });
  assert.deepEqual(provenance.fields['price'], { origin: 'source' });
  const changes = await collector.get(`/api/v1/listings/changes?after=${cursor}`);
  assert.deepEqual(changes.json<{ items: object[] }>().items, [], 'the source changed no price');

  const author = { api_key_id: null, api_key_name: null, by: null };
  const history = await readHistory(id);
  assert.partialDeepStrictEqual(history, [
    { corrected_by: author, changes: { price: { from: 60_000.02, to: 59_000 } } },
    { corrected_by: null, changes: { title: { to: 'Нова назва' } } },
    {
      corrected_by: { ...author, by: 'Olha' },
      changes: { price: { from: 62_000, to: 60_000.02 }, city: { from: 'Львів', to: 'Київ' } },
    },
    { corrected_by: null, changes: {} },
  ]);
  assert.deepEqual(Object.keys(history[1]?.changes ?? {}), ['title']);
  assert.deepEqual(
    (await readPages(collector, `/api/v1/listings/${id}/history?limit=2`)).flat(),
    history,
  );

  const rows = await db.selectFrom('listing_snapshots').selectAll().execute();
  for (const [body, errorPath] of [
    [{}, 'body'],
    [{ by: 'Olha' }, 'body'],
    [{ price: -1 }, 'body/price'],
    [{ latitude: 90.1 }, 'body/latitude'],
    [{ title: ' ' }, 'body/title'],
    [{ title: 'a\0b' }, 'body/title'],
    [{ currency: 'QQQ' }, 'body/currency'],
    [{ property_type: 'замок' }, 'body/property_type'],
    [{ floor: 9, floors_total: 5 }, 'body/floor'],
    [{ rooms: 1, undo: ['rooms'] }, 'body/rooms'],
    [{ summary: 'x' }, 'body'],
    [{ undo: ['url'] }, 'body/undo/0'],
    [{ rooms: 1, by: ' ' }, 'body/by'],
  ] as const) {
    const rejection = await collector.patch(path, body);
    const paths = rejection
      .json<{ errors: { path: string }[] }>()
      .errors.map((error) => error.path);
    assert.equal(rejection.status, 422, JSON.stringify(body));
    assert.ok(paths[0]?.startsWith(errorPath), `${JSON.stringify(body)}: ${paths.join(' ')}`);
  }
  assert.equal((await collector.patch(path, { undo })).status, 200);
  assert.equal(
    (await db.selectFrom('listing_snapshots').selectAll().execute()).length,
    rows.length,
  );
  const unknown = await collector.patch('/api/v1/listings/999999', { undo });
  assert.equal(unknown.json<{ code: string }>().code, 'listing_not_found');
});

const FLAT_FACTS = {
  title: 'Двокімнатна квартира на Франка',
  description: `Продам двокімнатну квартиру у Львові, високі стелі, дубовий паркет, тихе подвір'я, поруч
    парк і трамвай. Документи готові, ключі на руках.`,
  deal_type: 'sale',
  city: 'Львів',
  address: 'вул. Івана Франка, 61',
  rooms: 2,
  area_total: 54.3,
  floor: 3,
  floors_total: 5,
  price: 87_000,
  currency: 'USD',
} as const;

test('A listing shows its likely duplicates with reasons while they are offered', async () => {
  const { listing_id: listingId } = await processCompletely(createPayload(FLAT_FACTS));
  const copyPayload = createPayload({
    ...FLAT_FACTS,
    source_slug: 'misto',
    url: 'https://misto.example/7',
    price: 90_000,
  });
  const { listing_id: duplicateId } = await processCompletely(copyPayload);
  const rentedRecord = await processCompletely(
    createPayload({ ...FLAT_FACTS, deal_type: 'rent', price: 700 }),
  );
  const { duplicates } = await until('the duplicate is found', async () => {
    const listing = await readListing(listingId);
    return listing.duplicates.length > 0 && listing;
  });
  const [{ score, reasons, ...duplicate } = assert.fail(), ...otherDuplicates] = duplicates;
  assert.deepEqual(otherDuplicates, []);
  assert.deepEqual(duplicate, {
    listing_id: duplicateId,
    source_slug: 'misto',
    external_id: copyPayload.external_id,
    url: 'https://misto.example/7',
    price: 90_000,
    currency: 'USD',
  });
  assert.ok(score > 0.56 && score <= 1, `score ${score}`);
  const { text: textDetail, ...details } = Object.fromEntries(
    reasons.map(({ reason, detail }) => [reason, detail]),
  );
  assert.ok(textDetail);
  assert.deepEqual(details, {
    place: 'same building',
    area: 'both 54.3 m²',
    rooms: '2 rooms, floor 3, of 5',
    price: 'prices 3 % apart',
  });
  const duplicateListing = await readListing(duplicateId);
  const expected = { duplicate_group: listingId, duplicates: [{ listing_id: listingId, score }] };
  assert.equal(duplicateListing.duplicates.length, 1);
  assert.partialDeepStrictEqual(duplicateListing, expected);
  assert.equal((await readListing(listingId)).duplicate_group, listingId);
  assert.deepEqual((await readListing(rentedRecord.listing_id)).duplicates, []);

  // The response omits an archived duplicate before its group is updated.
  await archive(duplicateId);
  assert.deepEqual((await readListing(listingId)).duplicates, []);
  await until(
    'the group is gone',
    async () => (await readListing(listingId)).duplicate_group === null,
  );
  await processCompletely(copyPayload);
  await until(
    'the duplicate to be listed again',
    async () => (await readListing(listingId)).duplicates.length === 1,
  );
});

test('An older payload that ends late neither changes a listing nor restores it', async () => {
  const payload = createPayload({ price: 1000, currency: 'USD' });
  const { listing_id: id, raw_id: oldestId } = await processCompletely(payload);
  await processCompletely({ ...payload, price: 900 });
  await archive(id);
  await updateRawRecord(db, oldestId, { status: 'failed' });
  assert.equal((await collector.post(`/api/v1/admin/raw/${oldestId}/retry`)).status, 200);
  await waitUntilCompleted(db, oldestId);
  const listing = await readListing(id);
  assert.equal(listing['price'], 900);
  assert.notEqual(listing['archived_at'], null);
});

test('A verdict joins or separates two listings, and stays when they change', async () => {
  const facts = { ...FLAT_FACTS, address: 'вул. Вірменська, 8' };
  const { listing_id: id } = await processCompletely(createPayload(facts));
  const copyPayload = createPayload({ ...facts, source_slug: 'misto' });
  const { listing_id: copyId } = await processCompletely(copyPayload);
  const path = `/api/v1/listings/${id}/duplicates/${copyId}`;
  const readGroup = async (listingId: number) => (await readListing(listingId)).duplicate_group;
  await until('they share a group', async () => (await readGroup(copyId)) === id);

  const response = await collector.put(path, { verdict: 'different' });
  assert.equal(response.status, 200, response.text);
  const verdict = response.json<{ decided_at: string }>();
  const decided = { verdict: 'different', decided_by: null, decided_at: verdict.decided_at };
  assert.deepEqual(verdict, { listing_id: copyId, ...decided });
  await until('they are separate', async () => (await readGroup(copyId)) === null);
  await processCompletely({ ...copyPayload, price: 88_000 });
  await until('the change is compared', async () => (await countMarks()) === 0);
  const { duplicates, duplicate_group, duplicate_verdicts } = await readListing(copyId);
  assert.deepEqual([duplicates, duplicate_group], [[], null]);
  assert.deepEqual(duplicate_verdicts, [{ listing_id: id, ...decided }]);

  const removePath = `/api/v1/listings/${copyId}/duplicates/${id}`;
  assert.equal((await collector.delete(removePath)).status, 204);
  assert.equal((await collector.delete(removePath)).status, 204);
  await until('the score decides again', async () => (await readGroup(copyId)) === id);

  const unlikePayload = createPayload({
    ...FLAT_FACTS,
    floor: 5,
    address: 'вул. Шота Руставелі, 2',
  });
  const { listing_id: unlikeId } = await processCompletely(unlikePayload);
  const samePath = `/api/v1/listings/${unlikeId}/duplicates/${copyId}`;
  assert.equal((await collector.put(samePath, { verdict: 'same' })).status, 200);
  await until('all share a group', async () => (await readGroup(unlikeId)) === id);
  const [duplicate] = (await readListing(unlikeId)).duplicates;
  const reasons = [{ reason: 'verdict', part: 1, detail: 'a person decided' }];
  assert.partialDeepStrictEqual(duplicate, { listing_id: copyId, score: 1, reasons });

  const invalidCalls = [
    [`/api/v1/listings/${id}/duplicates/${id}`, 'same', 422],
    [path, 'similar', 422],
    [`/api/v1/listings/${id}/duplicates/999999999`, 'same', 404],
  ] as const;
  for (const [invalidPath, word, status] of invalidCalls) {
    assert.equal((await collector.put(invalidPath, { verdict: word })).status, status);
  }
});

test('The prices of a property in all its listings are listed page by page', async () => {
  const facts = { ...FLAT_FACTS, address: 'вул. Коперника, 15' };
  const [payload, copy] = [createPayload(facts), createPayload({ ...facts, source_slug: 'misto' })];
  const records: RawRecord[] = [];
  for (const changed of [
    { ...payload, price: 90_000 },
    { ...copy, price: 91_000 },
    { ...payload, price: 90_000, title: 'Квартира на вулиці Коперника' },
    { ...payload, price: 85_000 },
    { ...copy, price: 3_600_000, currency: 'UAH' },
  ])
    records.push(await processCompletely(changed));
  const [{ listing_id: id } = assert.fail(), { listing_id: copyId } = assert.fail()] = records;
  await until('they share a group', async () => (await readListing(copyId)).duplicate_group === id);
  await storeRates(db, [{ date: '2026-11-21', currency: 'USD', rate: 40 }]);

  type Price = Record<'listing_id' | 'raw_id' | 'price', number> & {
    price_converted: { amount: number } | null;
  };
  const first = await collector.get(`/api/v1/listings/${id}/prices?limit=3&currency=USD`);
  const [nextPath] = /(?<=<)[^>]+(?=>; rel="next")/.exec(first.headers.get('link') ?? '') ?? [];
  const rest = await collector.get(nextPath?.replace(collector.url, '') ?? '');
  const rows = [...first.json<Price[]>(), ...rest.json<Price[]>()];
  assert.deepEqual(
    rows.map((row) => [row.listing_id, row.price, row.price_converted?.amount, row.raw_id]),
    [
      [copyId, 3_600_000, 90_000, records[4]?.raw_id],
      [id, 85_000, undefined, records[3]?.raw_id],
      [copyId, 91_000, undefined, records[1]?.raw_id],
      [id, 90_000, undefined, records[0]?.raw_id],
    ],
  );
  const readPath = `/api/v1/listings/${copyId}/prices`;
  assert.equal((await collector.get(readPath)).json<Price[]>().length, 4);
  assert.equal((await collector.get('/api/v1/listings/999999999/prices')).status, 404);
  for (const query of ['currency=usd', 'currency=XXX', 'limit=0', 'cursor=7'])
    assert.equal((await collector.get(`${readPath}?${query}`)).status, 422, query);
});

const countMarks = async () =>
  (await db.selectFrom('duplicate_marks').select('id').execute()).length;
