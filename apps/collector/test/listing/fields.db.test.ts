import assert from 'node:assert/strict';
import { test } from 'node:test';
import { processThrough, startCollector } from '../support/collector.ts';
import { openDatabase, payloadOf } from '../support/pipeline.ts';

const collector = await startCollector(await openDatabase());

type Listing = { listing_id: number; year_built: number | null };

test('a year of construction is read or provided, answered, searched with and tracked', async () => {
  const text = 'Продам двокімнатну квартиру у Львові, цегляний будинок 1985 року побудови.';
  const payload = payloadOf({ external_id: 'year', description: text });
  const { listing_id: id } = await processThrough(collector, payload);
  const one = async () => (await collector.get(`/api/v1/listings/${id}`)).json<Listing>();
  assert.equal((await one()).year_built, 1985);

  await processThrough(collector, { ...payload, year_built: 1986 });
  assert.equal((await one()).year_built, 1986, "the source's value wins");
  const history = await collector.get(`/api/v1/listings/${id}/history`);
  const [latest] = history.json<{ changes: object }[]>();
  assert.deepEqual(latest?.changes, { year_built: { from: 1985, to: 1986 } });

  const answer = await collector.post('/api/v1/search/fulltext', { query: 'цегляний' });
  const { items } = answer.json<{ items: { listing: Listing }[] }>();
  assert.deepEqual(
    items.map(({ listing }) => [listing.listing_id, listing.year_built]),
    [[id, 1986]],
  );

  const rejected = await collector.post('/api/v1/ingest', { ...payload, year_built: 1066 });
  assert.equal(rejected.status, 422);
});
