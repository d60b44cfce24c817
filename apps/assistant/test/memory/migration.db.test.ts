import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openTestDatabase } from '@oselya/db/testing';
import { sql } from 'kysely';
import { migrateDatabase } from '../../src/main.ts';
import { writeFact } from '../../src/memory/repository.ts';
import type { Tables } from '../../src/tables.ts';

test('the tables of an older system keep their rows, of doubles the newest, with unknown times', async () => {
  const database = await openTestDatabase<Tables>();
  const { db } = database;
  await sql`
    create table memory_facts (
      id text primary key default gen_random_uuid()::text, user_id text, category text not null,
      key text not null, value text not null, created_at timestamptz
    )`.execute(db);
  await sql`
    insert into memory_facts (id, user_id, category, key, value, created_at) values
      ('double-1', 'u-1', 'c', 'a', 'v', null), ('double-2', 'u-1', 'c', 'a', 'v', null),
      ('older', 'u-1', 'c', 'b', 'v', null), ('newer', 'u-1', 'c', 'b', 'v', '2020-01-01Z'),
      ('legacy-1', null, 'c', 'a', 'v', null), ('legacy-2', null, 'c', 'a', 'v', null)`.execute(db);
  await sql`
    create table memory_summaries (id text primary key, user_id text, summary text not null)`.execute(
    db,
  );
  await sql`
    insert into memory_summaries values ('m-1', 'u-1', 'Has a dog.'), ('m-2', 'u-1', 'Works in Lviv.'),
      ('m-3', null, 's'), ('m-4', null, 's'), ('m-5', 'u-2', 'Same.'), ('m-6', 'u-2', 'Same.')`.execute(
    db,
  );

  await migrateDatabase({}, database);

  const facts = await db
    .selectFrom('memory_facts')
    .select(['id', 'updated_at'])
    .orderBy('id')
    .execute();
  assert.deepEqual(facts, [
    { id: 'double-2', updated_at: null },
    { id: 'legacy-1', updated_at: null },
    { id: 'legacy-2', updated_at: null },
    { id: 'newer', updated_at: new Date('2020-01-01') },
  ]);
  const summaries = await db
    .selectFrom('memory_summaries')
    .select(['id', 'summary', 'updated_at'])
    .orderBy('id')
    .execute();
  assert.deepEqual(summaries, [
    { id: 'm-2', summary: 'Has a dog.\n\nWorks in Lviv.', updated_at: null },
    { id: 'm-3', summary: 's', updated_at: null },
    { id: 'm-4', summary: 's', updated_at: null },
    { id: 'm-6', summary: 'Same.', updated_at: null },
  ]);
  const name = { userId: 'u-1', category: 'c', key: 'new', value: 'v', sourceSessionId: null };
  const written = await db.transaction().execute((trx) => writeFact(trx, name));
  assert.ok(written.created_at instanceof Date);
  assert.ok(written.updated_at instanceof Date);
});
