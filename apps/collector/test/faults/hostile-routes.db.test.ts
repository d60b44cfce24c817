import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { atEnd, exchange as exchangeBytes } from '@oselya/testing';
import { sql } from 'kysely';
import { createImage } from '../support/images.ts';
import { startCollector, documentedRoutes, formOf, sendForm } from '../support/collector.ts';
import { openDatabase, store, untilResourcesAreFree, payloadOf } from '../support/pipeline.ts';
import { hostileRequests } from './hostile-requests.ts';

const database = await openDatabase();
const { db } = database;
const folder = await mkdtemp(join(tmpdir(), 'oselya-hostile-'));
atEnd(() => rm(folder, { recursive: true }));

const REQUESTS = database.engine === 'postgres' ? 200 : 80;
const SEED = 20_261_122;

/** Without a worker, only requests change rows. */
const collector = await startCollector(database, {
  DATA_DIR: folder,
  COLLECTOR_WORKER: 'false',
  COLLECTOR_INGEST_PER_MINUTE: '0',
  COLLECTOR_FULLTEXT_PER_MINUTE: '0',
});

/** Statuses of unknown routes and malformed requests. */
const OF_NO_ROUTE = new Set([302, 400, 404, 405, 415, 421, 431]);

/** The head of a problem response or its HTML page. */
const PROBLEM = /^content-type: (application\/problem\+json|text\/html)/im;

/** Records each row that is written or deleted. */
async function watchRows(): Promise<() => Promise<number>> {
  await sql`create sequence changed_rows`.execute(db);
  await sql`create function note_changed_row() returns trigger language plpgsql as
    $$ begin perform nextval('changed_rows'); return null; end $$`.execute(db);
  const { rows } = await sql<{ name: string }>`
    select tablename as name from pg_tables where schemaname = 'public'`.execute(db);
  assert.ok(rows.length > 10);
  for (const { name } of rows) {
    await sql`create trigger note_changed_row after insert or update or delete on ${sql.table(name)}
      for each row execute function note_changed_row()`.execute(db);
  }
  return async () => {
    const { rows: counts } = await sql<{ n: number }>`
      select case when is_called then last_value else 0 end::integer as n
      from changed_rows`.execute(db);
    return counts[0]?.n ?? 0;
  };
}

/** Data for all routes: a failed payload, which is the first, and a listing with an image. */
async function fill(): Promise<{ sha256: string }> {
  const id = await store(db, payloadOf());
  await db.updateTable('raw_data').set({ status: 'failed' }).where('id', '=', id).execute();
  const bytes = Uint8Array.from(await createImage('png', { colour: 'orchid' }));
  const form = formOf(payloadOf(), [{ name: 'orchid.png', bytes }]);
  const sha256 = (await sendForm(collector.url, form)).body.images[0]?.sha256;
  assert.ok(sha256 !== undefined);
  return { sha256 };
}

const { sha256 } = await fill();
const changedRows = await watchRows();
const routes = await documentedRoutes(collector);
let changes = 0;

for (const route of routes) {
  const { method, path, answers } = route;
  test(`${REQUESTS} hostile requests to ${method} ${path} are answered, or rejected without a change`, async (context) => {
    const requests = hostileRequests(route, { count: REQUESTS, seed: SEED, sha256 });
    const statuses: Record<number, number> = {};
    for (const [nth, request] of requests.entries()) {
      const { status, text } = await exchangeBytes(collector.url, request);
      const report = `${request.subarray(0, 2000).toString()}\n${text.slice(0, 1000)}`;
      assert.ok(status < 500, report);
      assert.ok(answers[status] !== undefined || OF_NO_ROUTE.has(status), report);
      if (nth === 0) assert.ok(status < 300, report);
      if (status >= 400) assert.match(text, PROBLEM, report);
      statuses[status] = (statuses[status] ?? 0) + 1;
      const now = await changedRows();
      // A payload that is no listing is stored as invalid.
      const isStored = text.includes('"code":"not_a_listing"');
      if (status >= 400 && !isStored) assert.equal(now, changes, `rows have changed: ${report}`);
      changes = now;
    }
    context.diagnostic(JSON.stringify(statuses));
    await untilResourcesAreFree({ database, folder });
  });
}
