import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { claimAgain } from '../../src/queue/claim.ts';
import { expireLeases, rescueJobs } from '../../src/queue/jobs.ts';
import { startCollector } from '../support/collector.ts';
import {
  openDatabase,
  rawRecord,
  payloadOf,
  createHarness,
  listingOf,
} from '../support/pipeline.ts';
import { betterModel, openReprocess, readAll, readings } from './harness.ts';

const database = await openDatabase();
const { db } = database;
const collector = await startCollector(database, { COLLECTOR_WORKER: 'false' });
const harness = createHarness(db);

beforeEach(async () => {
  await db.deleteFrom('raw_data').execute();
  await db.deleteFrom('property_listings').execute();
});

/** Reads all listings again and writes them. */
async function reprocess(model = betterModel()): Promise<void> {
  const work = openReprocess(db, model);
  for (const reading of readings(await readAll(work))) {
    assert.deepEqual(await work.write(reading), { outcome: 'written' });
  }
}

type Item = {
  raw_id: number;
  reprocessed: boolean;
  model: string;
  listing: { rooms: number };
  changes: Record<string, unknown>;
};

/** What the API tells of a listing's history, the newest first. */
async function historyOf(listingId: number | null, query = ''): Promise<Item[]> {
  const answer = await collector.get(`/api/v1/listings/${listingId}/history${query}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.json<Item[]>();
}

const rooms = { from: 2, to: 9 };

test('a payload that is read again leaves what it said before, and what changed', async () => {
  const { id, listing_id: listingId } = await harness.process(payloadOf());
  await reprocess();
  const history = await historyOf(listingId);
  assert.deepEqual(
    history.map((item) => [item.raw_id, item.reprocessed, item.model, item.listing.rooms]),
    [
      [id, true, 'better-2026', 9],
      [id, false, 'mock', 2],
    ],
  );
  assert.deepEqual(
    history.map(({ changes }) => changes),
    [{ rooms }, {}],
  );
  const pages = [await historyOf(listingId, '?limit=1')];
  const { headers } = await collector.get(`/api/v1/listings/${listingId}/history?limit=1`);
  const next = /<[^?]+(\?.+)>/.exec(headers.get('link') ?? '')?.[1];
  pages.push(await historyOf(listingId, next));
  assert.deepEqual(
    pages,
    [history.slice(0, 1), history.slice(1)],
    'a page may end between the two',
  );
});

test('so does one with which its source has sent the same again', async () => {
  const payload = payloadOf();
  const first = await harness.process(payload);
  const second = await harness.process(payload);
  assert.deepEqual(
    (await rawRecord(db, second.id)).stages.map(({ outcome }) => outcome),
    ['unchanged'],
  );
  await reprocess();
  const history = await historyOf(first.listing_id);
  assert.deepEqual(
    history.map((item) => [item.raw_id, item.reprocessed, item.changes]),
    [
      [second.id, true, { rooms }],
      [first.id, false, {}],
    ],
  );
});

test('what comes next differs from what was read last', async () => {
  const payload = payloadOf({ price: 62_000, currency: 'USD' });
  const { listing_id: listingId } = await harness.process(payload);
  await reprocess();
  await createHarness(db, { model: betterModel() }).process({ ...payload, price: 60_000 });
  assert.deepEqual(
    (await historyOf(listingId)).map(({ reprocessed, changes }) => [reprocessed, changes]),
    [
      [false, { price: { from: 62_000, to: 60_000 } }],
      [true, { rooms }],
      [false, {}],
    ],
  );
});

test('a reading that changes nothing leaves no snapshot, and each that does one of its own', async () => {
  const { id, listing_id: listingId } = await harness.process(payloadOf());
  await reprocess();
  await reprocess();
  assert.equal((await historyOf(listingId)).length, 2);
  await reprocess(betterModel(() => ({ rooms: 4 })));
  assert.deepEqual(
    (await historyOf(listingId)).map(({ changes }) => changes),
    [{ rooms: { from: 9, to: 4 } }, { rooms }, {}],
  );
  const { attempt, revision } = await rawRecord(db, id);
  assert.deepEqual([attempt, revision], [4, 4]);
});

test("the model's own words are news where somebody has them written anew", async () => {
  const { listing_id: listingId } = await harness.process(payloadOf());
  await reprocess(betterModel(() => ({ features: ['balcony', 'lift'] })));
  const [last] = await historyOf(listingId);
  assert.deepEqual(Object.keys(last?.changes ?? {}), ['features']);
  assert.equal(last?.reprocessed, true);
});

test('one that another worker goes on with, after its process was killed, is still that reading', async () => {
  const payload = payloadOf();
  const raw = await harness.process(payload);
  assert.ok(raw.listing_id);
  const claimant = { worker: 'killed', leaseMs: 60_000 };
  assert.ok(await claimAgain(db, { rawId: raw.id, listingId: raw.listing_id }, claimant));
  // As the stage that writes the listing leaves it.
  await db.updateTable('listing_payloads').set({ completed_hash: null }).execute();
  await expireLeases(db);
  await rescueJobs(db, 3);
  assert.equal(await createHarness(db, { model: betterModel() }).runNext(), 'completed');
  assert.equal((await listingOf(db, payload))?.rooms, 9);
  assert.deepEqual(
    (await historyOf(raw.listing_id)).map(({ reprocessed, changes }) => [reprocessed, changes]),
    [
      [true, { rooms }],
      [false, {}],
    ],
  );
});
