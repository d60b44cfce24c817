import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startModelServer } from '@oselya/model/testing';
import { sql } from 'kysely';
import { POLL_MS } from '../src/queue/worker.ts';
import { until } from '@oselya/testing';
import { watchedDatabase } from '@oselya/testing/database';
import { startCollector } from './support/collector.ts';
import { openDatabase, rawRecord, store, payloadOf } from './support/pipeline.ts';

const database = await openDatabase();
const { db } = database;

test('a job left by a killed process waits for its lease only where others may work on it', async () => {
  const left = await store(db, payloadOf({ external_id: 'left' }));
  await db
    .updateTable('raw_data')
    .set({
      status: 'processing',
      attempt: 1,
      attempts: 1,
      lease_expires_at: new Date(Date.now() + 3_600_000),
    })
    .where('id', '=', left)
    .execute();
  const later = await store(db, payloadOf({ external_id: 'after' }));
  await using _ = await startCollector(database);
  await until('the later job', async () => (await rawRecord(db, later)).status === 'completed');

  if (database.isExclusive) {
    await until('the job left', async () => (await rawRecord(db, left)).status === 'completed');
    assert.equal((await rawRecord(db, left)).attempts, 2);
  } else {
    assert.equal((await rawRecord(db, left)).status, 'processing');
  }
});

test('leases of a process that has ended are ended before the first request can come', async () => {
  // On a server the one above still has its lease, which is ended here, too.
  await db.deleteFrom('raw_data').execute();
  const reserved = createServer();
  await once(reserved.listen(0, '127.0.0.1'), 'listening');
  const { port } = reserved.address() as AddressInfo;
  await once(reserved.close(), 'close');
  const asked: string[] = [];
  const watched = watchedDatabase(db, {
    async after(text) {
      if (!text.includes("now() - interval '1 second'")) return;
      const answer = await fetch(`http://127.0.0.1:${port}/health/live`).catch(() => undefined);
      asked.push(answer === undefined ? 'not listening' : 'listening');
    },
  });
  const exclusive = { ...database, db: watched, isExclusive: true };
  await using _ = await startCollector(exclusive, { COLLECTOR_PORT: String(port) });
  assert.deepEqual(asked, ['not listening']);
});

test('a start and its end wait for no model server', async () => {
  const asked = Promise.withResolvers<void>();
  const play = () => {
    asked.resolve();
    return 'silence' as const;
  };
  await using server = await startModelServer(play, { handlesProbes: true });
  const collector = await startCollector(database, {
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: server.url,
    MODEL_CHAT: 'm',
    MODEL_EMBEDDING: 'e',
  });
  await asked.promise;
  assert.equal((await collector.get('/health/live')).status, 200);
  await collector.close();
});

test('a start rescues jobs of lost workers, and fails those that have had three attempts', async () => {
  const [twice, thrice] = [await store(db, payloadOf()), await store(db, payloadOf())];
  const claimed = { status: 'processing', attempt: 3, lease_expires_at: new Date(0) } as const;
  const leave = (id: number, attempts: number) =>
    db
      .updateTable('raw_data')
      .set({ ...claimed, attempts })
      .where('id', '=', id)
      .execute();
  await leave(twice, 2);
  await leave(thrice, 3);
  await sql`create table claims (seconds integer)`.execute(db);
  await sql`create function note_claim() returns trigger language plpgsql as $$
    begin
      insert into claims values (extract(epoch from new.lease_expires_at - new.updated_at));
      return null;
    end $$`.execute(db);
  await sql`create trigger note_claim after update on raw_data
    for each row when (new.attempt > old.attempt) execute function note_claim()`.execute(db);
  await using _ = await startCollector(database);
  await until('the one', async () => (await rawRecord(db, twice)).status === 'completed');
  const failed = await rawRecord(db, thrice);
  assert.deepEqual([failed.status, failed.error?.code], ['failed', 'lease_lost']);
  const { rows } = await sql`select seconds from claims`.execute(db);
  assert.deepEqual(rows, [{ seconds: 60 }], 'a claim is for a minute');
  await sql`drop trigger note_claim on raw_data`.execute(db);
});

test('a start removes the temporary pictures of killed processes', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-start-'));
  after(() => rm(folder, { recursive: true, force: true }));
  const incoming = join(folder, 'images', 'incoming');
  await mkdir(incoming, { recursive: true });
  await writeFile(join(incoming, 'left'), 'half a picture');
  const longAgo = new Date(Date.now() - 2 * 3_600_000);
  await utimes(join(incoming, 'left'), longAgo, longAgo);
  await using _ = await startCollector(database, { DATA_DIR: folder, COLLECTOR_WORKER: 'false' });
  assert.deepEqual(await readdir(incoming), []);
});

test('a start on a port that is in use begins no work', async () => {
  const waiting = await store(db, payloadOf({ external_id: 'port in use' }));
  await using other = await startCollector(database, { COLLECTOR_WORKER: 'false' });
  const claims = 'select count(*)::int as n from raw_data where attempt > 0 and id = $1';
  const { port } = new URL(other.url);
  await assert.rejects(startCollector(database, { COLLECTOR_PORT: port }), /in use/);
  const { rows } = await database.pool.query<{ n: number }>(claims, [waiting]);
  assert.deepEqual(rows, [{ n: 0 }]);
});

test('a start that fails half-way leaves no worker behind', async () => {
  const deaf = { ...database, listen: () => Promise.reject(new Error('no connection is left')) };
  await assert.rejects(startCollector(deaf), /no connection is left/);
  const waiting = await store(db, payloadOf({ external_id: 'waiting' }));
  // A worker would look by itself within this time.
  await sleep(2 * POLL_MS);
  assert.equal((await rawRecord(db, waiting)).status, 'pending');
});
