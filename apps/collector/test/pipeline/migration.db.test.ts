import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDatabase } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';
import { createHarness } from '../support/pipeline.ts';

const { db, pool } = await openDatabase();

const FILE = join(import.meta.dirname, '../../migrations/0008_model_usage.sql');

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

  const migration = readFileSync(FILE, 'utf8');
  await pool.query(migration.slice(migration.indexOf('update listing_enrichments')));

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
