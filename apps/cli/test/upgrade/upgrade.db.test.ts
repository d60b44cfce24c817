import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as assistant from '@oselya/assistant';
import * as collector from '@oselya/collector';
import { migrate } from '@oselya/db';
import { openFolder, deferCleanup, until } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { createLogger } from '@oselya/kit';
import { sql } from 'kysely';

const DIMENSIONS = 8;
/** Each app's last migration in the earlier version, and the SHA-256 of all its migrations. */
const EARLIER_MIGRATIONS = {
  assistant: {
    last: '0017',
    sha256: '81bbb2ad5fcae20ad372d79b977e24bef82ab4258a16324838ab496e605e9580',
  },
  collector: {
    last: '0024',
    sha256: 'a94d4c89574f53d015c99ae16163b2f520dd996ff69cf9108bec27e56da16722',
  },
};

const folder = await openFolder();

const database = await openTestDatabase<assistant.Tables & collector.Tables>();
for (const [component, { last }] of Object.entries(EARLIER_MIGRATIONS)) {
  const migrationFolder = join(import.meta.dirname, '../../../', component, 'migrations');
  for (const name of readdirSync(migrationFolder).filter((file) => file.slice(0, 4) <= last)) {
    cpSync(join(migrationFolder, name), join(folder, component, name));
  }
  const variables = { embedding_dimensions: DIMENSIONS };
  await migrate(database, { component, folder: join(folder, component), variables });
}

/** Disables or enables the triggers, which would add rows. */
async function setTriggers(state: 'disable' | 'enable'): Promise<void> {
  const tables = await sql<{ name: string }>`
    select relname as name from pg_class
    where relkind = 'r' and relnamespace = 'public'::regnamespace`.execute(database.db);
  for (const { name } of tables.rows) {
    await sql`alter table ${sql.table(name)} ${sql.raw(state)} trigger user`.execute(database.db);
  }
}
await setTriggers('disable');
const text = readFileSync(join(import.meta.dirname, 'data.sql'), 'utf8');
for (const statement of text.split(/;\n/).filter((part) => part.trim() !== '')) {
  await sql.raw(statement).execute(database.db);
}
await setTriggers('enable');

await assistant.migrateDatabase({}, database);
const runningCollector = await collector.start(
  {
    DATA_DIR: folder,
    COLLECTOR_PORT: '0',
    EMBEDDING_DIMENSIONS: String(DIMENSIONS),
    MIN_FREE_DISK_MB: '0',
  },
  { database, log: createLogger({ level: 'silent', service: 'test' }) },
);
deferCleanup(runningCollector.close);

async function request<Answer>(path: string, body?: object): Promise<Answer> {
  const response = await fetch(`${runningCollector.url}/api/v1${path}`, {
    ...(body && {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  });
  assert.equal(response.status, 200, path);
  return (await response.json()) as Answer;
}

async function query<Row>(statement: string): Promise<Row[]> {
  return (await sql.raw<Row>(statement).execute(database.db)).rows;
}

test('the migrations of the earlier version are unchanged', () => {
  for (const [component, { sha256 }] of Object.entries(EARLIER_MIGRATIONS)) {
    const paths = readdirSync(join(folder, component)).map((name) => join(folder, component, name));
    const files = paths.toSorted().map((path) => readFileSync(path));
    assert.equal(hash('sha256', Buffer.concat(files)), sha256, component);
  }
});

type RawRecord = { id: number; status: string; listing_id: number };

test('a pending payload of the earlier version is processed', async () => {
  const waitingRecordQuery = `select id, status, listing_id from raw_data where external_id = 'waiting'`;
  const rawRecord = await until('the payload', async () => {
    const [row] = await query<RawRecord>(waitingRecordQuery);
    return row?.status === 'completed' && row;
  });
  const listing = await request<Record<string, unknown>>(`/listings/${rawRecord.listing_id}`);
  assert.deepEqual(
    [listing['city'], listing['rooms'], listing['price'], listing['year_built']],
    ['Полтава', 4, 95_000, 2011],
  );
});

test('search finds an earlier listing by words and by meaning, with its history', async () => {
  const [existingListing] = await query<{ id: number; title: string }>(
    `select listing_id as id, listing->>'title' as title from listing_snapshots
     where changes <> '{}' order by id limit 1`,
  );
  assert.ok(existingListing);
  type Found = { items: { listing: { listing_id: number; year_built: null } }[] };
  const { items } = await request<Found>('/search/fulltext', { query: existingListing.title });
  const match = items.find(({ listing }) => listing.listing_id === existingListing.id);
  assert.equal(match?.listing.year_built, null);
  const similarListings = await request<Found>('/search/similar', {
    listing_id: existingListing.id,
    limit: 3,
  });
  assert.equal(similarListings.items.length, 3);
  type Snapshot = { changes: Record<string, { from: unknown; to: unknown }> };
  const history = await request<Snapshot[]>(`/listings/${existingListing.id}/history`);
  assert.equal(history.length, 2);
  assert.ok(history[0]?.changes['price']);
  const { provenance } = await request<{ provenance: object | null }>(
    `/listings/${existingListing.id}`,
  );
  assert.ok(provenance);
});

test('sessions, messages, facts and saved searches are kept, and legacy data is assigned', async () => {
  const [session] = await query(`select name, pinned from conversation_sessions where id = 'c-1'`);
  assert.deepEqual(session, { name: 'Квартира у Львові', pinned: true });
  const messages = await query(`select id from conversation_messages order by position`);
  assert.deepEqual(messages, [{ id: 'm-1' }, { id: 'm-2' }, { id: 'm-3' }]);
  const [signIn] = await query(`select user_id from user_auth_sessions`);
  assert.deepEqual(signIn, { user_id: 'u-olena' });
  const [search] = await query(`select search from saved_searches`);
  assert.deepEqual(search, { search: { query: 'квартира', city: 'Львів' } });
  const report = await assistant.assignLegacy(database, { userId: 'u-olena', dryRun: false });
  assert.ok(report);
  const facts = await query(`select key, user_id from memory_facts order by key`);
  assert.deepEqual(facts, [
    { key: 'city', user_id: 'u-olena' },
    { key: 'pets', user_id: 'u-olena' },
  ]);
});

/** Query for the statements that drop and recreate all triggers, indexes, checks and defaults, as a restore does. */
const objects = sql<{ drop: string; create: string }>`
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
  const rollback = new Error('rolled back');
  const restoration = database.db.transaction().execute(async (trx) => {
    await sql`set local search_path = ''`.execute(trx);
    const { rows } = await objects.execute(trx);
    assert.ok(rows.length > 100, `${rows.length} objects`);
    for (const object of rows) {
      await sql.raw(object.drop).execute(trx);
      await sql.raw(object.create).execute(trx);
    }
    throw rollback;
  });
  await assert.rejects(restoration, rollback);
});
