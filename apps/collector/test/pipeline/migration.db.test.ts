import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDatabase, payloadOf, createHarness } from '../support/pipeline.ts';

const { db, pool } = await openDatabase();

const migration = (name: string) =>
  readFileSync(join(import.meta.dirname, '../../migrations', name), 'utf8');

/** Puts the columns back that listings had before `listing_payloads`. */
async function withFormerColumns(): Promise<void> {
  await pool.query(
    `alter table property_listings add column raw_id bigint, add column completed_hash text`,
  );
  await pool.query(`update property_listings as listing
    set raw_id = current.raw_id, completed_hash = current.completed_hash
    from listing_payloads as current
    where current.source_slug = listing.source_slug and current.external_id = listing.external_id`);
}

test('provenance of an earlier version becomes that of this one', async () => {
  const { id, listing_id: listingId } = await createHarness(db).process(payloadOf());
  assert.ok(listingId);
  const earlier = {
    fields: { price: 'payload', rooms: 'model' },
    model: 'qwen3:4b',
    prompt: 'listing-extraction.v1',
  };
  await db
    .updateTable('listing_enrichments')
    .set({ value: JSON.stringify(earlier) })
    .where('kind', '=', 'provenance')
    .execute();
  const others = () =>
    db.selectFrom('listing_enrichments').selectAll().where('kind', '!=', 'provenance').execute();
  const before = await others();

  await withFormerColumns();
  const text = migration('0008_model_usage.sql');
  await pool.query(text.slice(text.indexOf('update listing_enrichments')));
  await pool.query('alter table property_listings drop column raw_id, drop column completed_hash');

  const { value } = await db
    .selectFrom('listing_enrichments')
    .select('value')
    .where('kind', '=', 'provenance')
    .executeTakeFirstOrThrow();
  assert.deepEqual(value, {
    raw_id: id,
    model: 'qwen3:4b',
    requested_model: null,
    prompt_version: 'listing-extraction.v1',
    fields: { price: { origin: 'payload' }, rooms: { origin: 'model' } },
  });
  assert.deepEqual(await others(), before);
});

test('what was known of the payloads of listings is known after the move', async () => {
  const harness = createHarness(db);
  await harness.process(payloadOf());
  const currents = () => db.selectFrom('listing_payloads').selectAll().orderBy('raw_id').execute();
  await db.updateTable('listing_payloads').set({ completed_hash: null }).execute();
  await harness.process(payloadOf());
  const before = await currents();
  await withFormerColumns();
  await pool.query('drop table listing_payloads');
  const text = migration('0012_bookkeeping.sql');
  await pool.query(text.slice(0, text.indexOf('-- When work that comes around')));
  assert.equal(before.length, 3);
  assert.deepEqual(await currents(), before);
});
