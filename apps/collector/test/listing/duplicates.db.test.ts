import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '@oselya/testing';
import { processThrough, type Raw, startCollector } from '../support/collector.ts';
import { openDatabase, payloadOf } from '../support/pipeline.ts';

const database = await openDatabase();
const collector = await startCollector(database);

/** Sends a payload, waits for its end, and gives its listing's id. */
async function processed(payload: object): Promise<number> {
  return (await processThrough(collector, payload)).listing_id;
}

type Listing = {
  archived_at: string | null;
  price: number;
  duplicate_group: number | null;
  duplicates: {
    listing_id: number;
    source_slug: string;
    external_id: string;
    url: string | null;
    price: number | null;
    currency: string | null;
    score: number;
    reasons: { reason: string; part: number; detail: string }[];
  }[];
};

const listing = async (id: number) =>
  (await collector.get(`/api/v1/listings/${id}`)).json<Listing>();

const FLAT = {
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

test('a listing shows those that are likely the same, with reasons, while they are there', async () => {
  const one = await processed(payloadOf(FLAT));
  const there = payloadOf({
    ...FLAT,
    source_slug: 'misto',
    url: 'https://misto.example/7',
    price: 90_000,
  });
  const other = await processed(there);
  const rented = await processed(payloadOf({ ...FLAT, deal_type: 'rent', price: 700 }));
  const { duplicates } = await until('the duplicate', async () => {
    const shown = await listing(one);
    return shown.duplicates.length > 0 && shown;
  });
  assert.deepEqual(
    duplicates.map(({ reasons: _reasons, score: _score, ...duplicate }) => duplicate),
    [
      {
        listing_id: other,
        source_slug: 'misto',
        external_id: there.external_id,
        url: 'https://misto.example/7',
        price: 90_000,
        currency: 'USD',
      },
    ],
  );
  const [{ score, reasons } = { score: 0, reasons: [] }] = duplicates;
  assert.ok(score > 0.56 && score <= 1, `score ${score}`);
  const details = new Map(reasons.map(({ reason, detail }) => [reason, detail]));
  assert.equal(details.get('place'), 'same building');
  assert.equal(details.get('area'), 'both 54.3 m²');
  assert.equal(details.get('rooms'), '2 rooms, floor 3, of 5');
  assert.equal(details.get('price'), 'prices 3 % apart');
  assert.ok(details.has('text'));
  // Both sides show each other, and what is for rent shows nobody.
  const mirrored = await listing(other);
  assert.deepEqual(
    mirrored.duplicates.map((duplicate) => [duplicate.listing_id, duplicate.score]),
    [[one, score]],
  );
  assert.deepEqual([mirrored.duplicate_group, (await listing(one)).duplicate_group], [one, one]);
  assert.deepEqual(await listing(rented).then((shown) => shown.duplicates), []);

  // What is archived is left out at once, whenever it is looked at again.
  await archive(other);
  assert.deepEqual((await listing(one)).duplicates, []);
  await until('the group is gone', async () => (await listing(one)).duplicate_group === null);
  await processed(there);
  await until('it is back', async () => (await listing(one)).duplicates.length === 1);
});

test('a listing that comes back with another price is the same, and its history goes on', async () => {
  const payload = payloadOf({ price: 62_000, currency: 'USD' });
  const id = await processed(payload);
  await archive(id);
  assert.equal(await processed({ ...payload, price: 58_000 }), id);
  const shown = await listing(id);
  assert.deepEqual([shown.archived_at, shown.price], [null, 58_000]);
  const history = (await collector.get(`/api/v1/listings/${id}/history`)).json<
    { changes: object }[]
  >();
  assert.deepEqual(
    history.map(({ changes }) => changes),
    [{ price: { from: 62_000, to: 58_000 } }, {}],
  );
});

test('an older payload that ends late neither changes a listing nor brings it back', async () => {
  const payload = payloadOf({ price: 1000, currency: 'USD' });
  const id = await processed(payload);
  await processed({ ...payload, price: 900 });
  await archive(id);
  const { id: oldest } = await database.db
    .selectFrom('raw_data')
    .select('id')
    .where('listing_id', '=', id)
    .orderBy('id')
    .executeTakeFirstOrThrow();
  await database.db
    .updateTable('raw_data')
    .set({ status: 'failed' })
    .where('id', '=', oldest)
    .execute();
  assert.equal((await collector.post(`/api/v1/admin/raw/${oldest}/retry`)).status, 200);
  await until('it has ended again', async () => {
    const raw = (await collector.get(`/api/v1/raw/${oldest}`)).json<Raw>();
    return raw.status === 'completed';
  });
  const shown = await listing(id);
  assert.equal(shown.price, 900);
  assert.notEqual(shown.archived_at, null);
});

async function archive(id: number): Promise<void> {
  await database.db
    .updateTable('property_listings')
    .set({ archived_at: new Date() })
    .where('id', '=', id)
    .execute();
}
