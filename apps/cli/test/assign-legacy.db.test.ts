import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { migrateDatabase, type Tables } from '@oselya/assistant';
import { connect, type Database, lockFolder } from '@oselya/db';
import { fillDataFolder, openTestDatabase } from '@oselya/testing/database';

const BIN = join(import.meta.dirname, '../bin/oselya.js');
const folder = mkdtempSync(join(tmpdir(), 'oselya-legacy-'));
after(() => rmSync(folder, { recursive: true }));

const { url } = await openTestDatabase<Tables>();
const address: Record<string, string> =
  url === undefined ? { DATA_DIR: join(folder, 'var') } : { DATABASE_URL: url };
if (address['DATA_DIR'] !== undefined) await fillDataFolder(address['DATA_DIR']);

/** Opens the database that the command uses, for as long as the command does not run. */
async function useDatabase<Result>(
  work: (database: Database<Tables>) => Promise<Result>,
): Promise<Result> {
  const database = await connect<Tables>({ url, dataDir: address['DATA_DIR'] });
  try {
    await migrateDatabase({}, database);
    return await work(database);
  } finally {
    await database.close();
  }
}

function assignLegacy(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, 'assign-legacy', ...args], {
    cwd: folder,
    encoding: 'utf8',
    // The collector has no part in it, be it set up or not.
    env: { PATH: process.env['PATH'] ?? '', COLLECTOR_PORT: 'none', ...address },
  });
  return { status, lines: stdout.split('\n').slice(0, -1), stderr };
}

const rows = async ({ db, pool }: Database<Tables>) => ({
  sessions: await db.selectFrom('conversation_sessions').selectAll().execute(),
  facts: await db.selectFrom('memory_facts').selectAll().orderBy('key').execute(),
  summaries: await db.selectFrom('memory_summaries').selectAll().execute(),
  audit: await db.selectFrom('audit_log').select(['action', 'user_id']).execute(),
  listings: (await pool.query("select to_regclass('property_listings') as name")).rows,
});

test('legacy data is assigned after a dry run, and only once', async () => {
  const before = await useDatabase(async (database) => {
    const { db } = database;
    await db
      .insertInto('svc_users')
      .values({ id: 'u-1', email: 'olena@example.test', display_name: null })
      .execute();
    const legacy = { user_id: null, source_session_id: null, category: 'home', value: 'old' };
    const [older, newer] = [new Date('2026-01-01'), new Date('2026-01-02')];
    await db
      .insertInto('memory_facts')
      .values([
        { ...legacy, key: 'district', updated_at: older },
        { ...legacy, key: 'rooms', updated_at: newer },
        { ...legacy, key: 'pets', updated_at: newer },
        { ...legacy, key: 'garden', updated_at: older, category: null, value: null },
        { ...legacy, key: 'garden', updated_at: newer, user_id: 'u-1', category: null },
        { ...legacy, key: 'district', updated_at: newer, user_id: 'u-1', value: 'own' },
        { ...legacy, key: 'rooms', updated_at: older, user_id: 'u-1', value: 'own' },
      ])
      .execute();
    await db
      .insertInto('conversation_sessions')
      .values({ user_id: null, profile_id: null, name: 'An old one' })
      .execute();
    await db
      .insertInto('memory_summaries')
      .values({ user_id: null, summary: 'Has a dog.' })
      .execute();
    return rows(database);
  });

  const dry = assignLegacy('u-1', '--dry-run');
  assert.equal(dry.status, 0, dry.stderr);
  assert.deepEqual(await useDatabase(rows), before);

  const done = assignLegacy('u-1');
  assert.equal(done.status, 0, done.stderr);
  assert.deepEqual(done.lines.slice(1), dry.lines.slice(1));
  assert.deepEqual(done.lines, [
    'This is now the data of "u-1".',
    'sessions assigned: 1',
    'facts assigned: 2',
    '  replace an older value of the user: 1',
    '    home / rooms',
    "  deleted, because the user's own value is newer: 2",
    '     / garden',
    '    home / district',
    'summary: assigned',
  ]);
  const assigned = await useDatabase(rows);
  assert.deepEqual(
    assigned.facts.map(({ user_id, key, value }) => [user_id, key, value]),
    [
      ['u-1', 'district', 'own'],
      ['u-1', 'garden', 'old'],
      ['u-1', 'pets', 'old'],
      ['u-1', 'rooms', 'old'],
    ],
  );
  assert.equal(assigned.sessions[0]?.user_id, 'u-1');
  assert.equal(assigned.summaries[0]?.user_id, 'u-1');
  assert.deepEqual(assigned.listings, [{ name: null }], "the collector's tables are not needed");
  assert.deepEqual(assigned.audit, [{ action: 'legacy_assigned', user_id: 'u-1' }]);

  const again = assignLegacy('u-1');
  assert.equal(again.status, 0, again.stderr);
  assert.deepEqual(again.lines, ['Nothing to do: all sessions and all memory have an owner.']);
});

test('a user who never signed in cannot become the owner', () => {
  const { status, lines, stderr } = assignLegacy('u-9\u202E');
  assert.equal(status, 1);
  assert.deepEqual(lines, []);
  assert.equal(
    stderr.replace(/^DATABASE_URL is not set: the embedded database in .+ is used\.\n/, ''),
    'oselya: there is no user "u-9": the new owner has to sign in once first\n',
  );
});

test('an embedded database in use is reported', () => {
  const dataDir = join(folder, 'in-use');
  const lock = lockFolder(dataDir);
  const { status, stderr } = spawnSync(process.execPath, [BIN, 'assign-legacy', 'u-1'], {
    cwd: folder,
    encoding: 'utf8',
    env: { PATH: process.env['PATH'] ?? '', DATA_DIR: dataDir },
  });
  lock.release();
  assert.equal(status, 1);
  assert.match(stderr, /^oselya: The data folder .*in-use is in use by another Oselya process/);
  assert.equal(stderr.trim().split('\n').length, 1);
});
