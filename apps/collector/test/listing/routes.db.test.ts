import assert from 'node:assert/strict';
import { test } from 'node:test';
import { processThrough, startCollector } from '../support/collector.ts';
import { openDatabase, payloadOf } from '../support/pipeline.ts';

const collector = await startCollector(await openDatabase());

test('a payload becomes a listing that can be read, with its history and pictures', async () => {
  const payload = payloadOf({
    price: 62_000,
    currency: 'USD',
    image_urls: [1, 2, 3].map((n) => `http://127.0.0.1:9/${n}.jpg`),
  });
  const first = await processThrough(collector, payload);
  assert.equal(first.status, 'completed', JSON.stringify(first.error));
  const second = await processThrough(collector, { ...payload, price: 60_000 });
  assert.equal(second.listing_id, first.listing_id);

  const address = `/api/v1/listings/${first.listing_id}`;
  const listing = (await collector.get(address)).json<Record<string, unknown>>();
  assert.equal(listing['listing_id'], first.listing_id);
  assert.equal(listing['external_id'], payload.external_id);
  assert.equal(listing['price'], 60_000);
  assert.equal(listing['rooms'], 2);
  assert.equal(listing['archived_at'], null);
  assert.ok(!('embedding' in listing));

  const history = (await collector.get(`${address}/history`)).json<
    { raw_id: number; changes: object; listing: { price: number } }[]
  >();
  assert.deepEqual(
    history.map((item) => [item.raw_id, item.listing.price]),
    [
      [second.raw_id, 60_000],
      [first.raw_id, 62_000],
    ],
  );
  assert.deepEqual(history[0]?.changes, { price: { from: 62_000, to: 60_000 } });

  const images = (await collector.get(`${address}/images`)).json<
    { position: number; url: string; sha256: null; error: string }[]
  >();
  assert.deepEqual(
    images.map(({ position, url, sha256 }) => [position, url, sha256]),
    payload.image_urls?.map((url, position) => [position, url, null]),
  );
  assert.ok(images[0]?.error, 'an address of this machine is refused, with the reason');

  assert.deepEqual(await walk(`${address}/history?limit=1`), [[history[0]], [history[1]]]);
  assert.deepEqual(await walk(`${address}/images?limit=2`), [images.slice(0, 2), images.slice(2)]);
  // No row is at such a position: the columns hold no larger number than 2147483647.
  const beyond = Buffer.from('2147483648').toString('base64url');
  const refused = [
    'history?limit=0',
    'images?limit=0',
    `images?cursor=${beyond}`,
    'history?cursor=7',
  ];
  for (const path of refused) {
    assert.equal((await collector.get(`${address}/${path}`)).status, 422, path);
  }
});

/** Every page of a list, as their links lead from one to the next. */
async function walk(path: string): Promise<unknown[][]> {
  const page = await collector.get(path);
  const next = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1];
  return [page.json<unknown[]>(), ...(next === undefined ? [] : await walk(next))];
}

test('a listing that is not there is 404 everywhere', async () => {
  for (const path of ['', '/history', '/images']) {
    const answer = await collector.get(`/api/v1/listings/999999${path}`);
    assert.equal(answer.status, 404);
    assert.equal(answer.json<{ code: string }>().code, 'listing_not_found');
  }
});
