import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { createRetry } from '../../../src/operations/raw/retry.ts';
import { openDatabase, store } from '../../support/database.ts';
import { payloadOf } from '../../support/payload.ts';

const { db } = await openDatabase();
let told = 0;
const retry = createRetry({ db, onRetried: () => (told += 1) });

test('many payloads are put back in batches of at most 1000, others stay', async () => {
  await store(db, payloadOf({ source_slug: 'many' }));
  await store(db, payloadOf({ source_slug: 'other' }));
  await sql`insert into raw_data
      (source_slug, external_id, payload, content_hash, status, attempts, error)
    select source, n::text, '{}', n::text, status, 3, '{"code":"model_failed"}'
    from generate_series(1, 2001) as n,
      (values ('many', 'failed'), ('other', 'failed'), ('many', 'invalid')) as kinds (source, status)
    where status = 'failed' and source = 'many' or n = 1`.execute(db);
  await sql`create table batches (size integer)`.execute(db);
  await sql`create function note_batch() returns trigger language plpgsql as $$
    begin insert into batches select count(*) from changed; return null; end $$`.execute(db);
  await sql`create trigger note_batch after update on raw_data referencing new table as changed
    for each statement execute function note_batch()`.execute(db);

  assert.equal(await retry.all({ status: 'failed', source_slug: 'many' }), 2001);
  const batches = await sql<{ size: number }>`select size from batches`.execute(db);
  assert.deepEqual(
    batches.rows.map(({ size }) => size),
    [1000, 1000, 1],
  );
  assert.equal(told, 3);
  const { rows } = await sql<{ source_slug: string; status: string; n: number }>`
    select source_slug, status, count(*)::integer as n from raw_data
    where attempts = 3 or error is not null group by 1, 2 order by 1, 2`.execute(db);
  assert.deepEqual(rows, [
    { source_slug: 'many', status: 'invalid', n: 1 },
    { source_slug: 'other', status: 'failed', n: 1 },
  ]);
  await sql`drop trigger note_batch on raw_data`.execute(db);

  assert.equal(await retry.all({ status: 'failed' }), 1);
  assert.equal(await retry.all({ status: 'failed' }), 0);
  assert.equal(told, 4);
});

test('it ends after the batch in progress when it is told to', async () => {
  await sql`insert into sources (slug) values ('ending')`.execute(db);
  await sql`insert into raw_data (source_slug, external_id, payload, content_hash, status)
    select 'ending', n::text, '{}', n::text, 'failed' from generate_series(1, 1500) as n`.execute(
    db,
  );
  const filter = { status: 'failed', source_slug: 'ending' } as const;
  assert.equal(await retry.all(filter, AbortSignal.abort()), 1000);
  assert.equal(await retry.all(filter), 500);
});

test('what fails again at once is not put back by the same call for ever', async () => {
  const id = await store(db, payloadOf({ source_slug: 'again' }));
  await db.updateTable('raw_data').set({ status: 'failed' }).where('id', '=', id).execute();
  await sql`insert into raw_data (source_slug, external_id, payload, content_hash, status)
    select 'again', n::text, '{}', n::text, 'failed' from generate_series(1, 999) as n`.execute(db);
  await sql`create function fail_again() returns trigger language plpgsql as $$
    begin new.status = 'failed'; new.updated_at = now() + interval '1 ms'; return new; end $$`.execute(
    db,
  );
  await sql`create trigger fail_again before update on raw_data
    for each row execute function fail_again()`.execute(db);
  let batches = 0;
  const watched = createRetry({
    db,
    onRetried() {
      batches += 1;
      assert.equal(batches, 1);
    },
  });
  assert.equal(await watched.all({ status: 'failed', source_slug: 'again' }), 1000);
});
