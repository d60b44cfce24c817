import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as assistant from '@oselya/assistant';
import * as collector from '@oselya/collector';
import { openTestDatabase } from '@oselya/testing/database';
import { sql } from 'kysely';

const database = await openTestDatabase<never>();
for (const { migrateDatabase } of [assistant, collector]) await migrateDatabase({}, database);

type Part = { drop: string; create: string };

/** Objects that a dump creates after the data, as `pg_dump` writes them, with names of schemas. */
const parts = sql<Part>`
  select format('drop trigger %I on %s', tgname, tgrelid::regclass) as "drop",
    pg_get_triggerdef(oid) as "create"
  from pg_trigger where not tgisinternal
  union all
  select format('drop index %s', indexrelid::regclass), pg_get_indexdef(indexrelid)
  from pg_index
    join pg_class on pg_class.oid = indrelid and relnamespace = 'public'::regnamespace
  where not exists (select from pg_constraint where conindid = indexrelid)
  union all
  select format('alter table %s drop constraint %I', conrelid::regclass, conname),
    format('alter table %s add constraint %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
  from pg_constraint where contype = 'c' and connamespace = 'public'::regnamespace
  union all
  select format('alter table %s alter %I drop default', adrelid::regclass, attname),
    format('alter table %s alter %I set default %s', adrelid::regclass, attname, pg_get_expr(adbin, adrelid))
  from pg_attrdef join pg_attribute on attrelid = adrelid and attnum = adnum and attgenerated = ''
    join pg_class on pg_class.oid = adrelid and relnamespace = 'public'::regnamespace`;

test('triggers, indexes, checks and defaults of a dump can be restored', async () => {
  const undone = new Error('rolled back');
  const restoring = database.db.transaction().execute(async (trx) => {
    await sql`set local search_path = ''`.execute(trx);
    const { rows } = await parts.execute(trx);
    assert.ok(rows.length > 100, `${rows.length} parts`);
    for (const part of rows) {
      await sql.raw(part.drop).execute(trx);
      await sql.raw(part.create).execute(trx);
    }
    throw undone;
  });
  await assert.rejects(restoring, undone);
});
