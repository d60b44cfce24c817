import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Kysely, PostgresDialect, sql } from 'kysely';
import type { Tables } from '../../../src/tables.ts';
import { listRaw } from '../../../src/operations/raw/list.sql.ts';
import { startCollector } from '../../support/collector.ts';
import { openDatabase } from '../../support/database.ts';
import { payloadOf } from '../../support/payload.ts';
import { until } from '../../support/until.ts';

const database = await openDatabase();
const { db } = database;
const collector = await startCollector(database);

type Item = {
  raw_id: number;
  status: string;
  error: { code: string } | null;
  request_id: string | null;
};

type Raw = { status: string; listing_id: number };

/** Stores payloads that ended, each a microsecond after the one before. */
async function ended(source: string, status: string, count: number): Promise<number[]> {
  await sql`insert into sources (slug) values (${source}) on conflict do nothing`.execute(db);
  const { rows } = await sql<{ id: number }>`
    insert into raw_data (source_slug, external_id, payload, content_hash, status, error, updated_at)
    select ${source}, n::text, '{}', n::text, ${status}, '{"code": "model_failed", "message": "No."}',
      timestamptz '2026-05-04T09:00:00Z' + n * interval '1 microsecond'
    from generate_series(1, ${count}) as n order by n
    returning id`.execute(db);
  return rows.map(({ id }) => id);
}

/** Every page of a list, as their links lead from one to the next. */
async function walk(path: string): Promise<Item[][]> {
  const page = await collector.get(path);
  assert.equal(page.status, 200, page.text);
  const next = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1];
  return [page.json<Item[]>(), ...(next === undefined ? [] : await walk(next))];
}

test('payloads of a status are listed page by page, the last changed first', async () => {
  const ids = await ended('listed', 'failed', 7);
  await ended('listed', 'invalid', 2);
  await ended('other', 'failed', 1);
  const pages = await walk('/api/v1/admin/raw?status=failed&source_slug=listed&limit=3');
  assert.deepEqual(
    pages.map((page) => page.length),
    [3, 3, 1],
  );
  assert.deepEqual(
    pages.flat().map((item) => item.raw_id),
    ids.toReversed(),
  );
  assert.equal(pages[0]?.[0]?.error?.code, 'model_failed');
  const everywhere = await walk('/api/v1/admin/raw?status=failed');
  assert.equal(everywhere.flat().length, 8);
  assert.deepEqual(await walk('/api/v1/admin/raw?status=completed'), [[]]);
});

test('a listed payload names the request that brought it, and not what it holds', async () => {
  const sent = await collector.post('/api/v1/ingest', payloadOf({ source_slug: 'traced' }), {
    'x-request-id': 'a-request',
  });
  const { raw_id: id } = sent.json<{ raw_id: number }>();
  const item = await until(
    'the payload',
    async () =>
      (await collector.get('/api/v1/admin/raw?status=completed&source_slug=traced')).json<
        Item[]
      >()[0],
  );
  assert.equal(item.raw_id, id);
  assert.equal(item.request_id, 'a-request');
  assert.ok(!('payload' in item));
});

test('a page of the list is read off an index, of one source and of all', async () => {
  const seen: { sql: string; parameters: readonly unknown[] }[] = [];
  const watched = new Kysely<Tables>({
    dialect: new PostgresDialect({ pool: database.pool }),
    log: ({ query }) => void seen.push(query),
  });
  const after = { at: Date.parse('2026-05-04T09:00:00Z') * 1000, id: 100 };
  for (const source of [undefined, 'traced']) {
    await listRaw(watched, { status: 'failed', source, after, limit: 10 });
  }
  const plans: string[] = [];
  const client = await database.pool.connect();
  // Where the table is small, anything is as good as an index: what else there is counts as the last resort.
  await client.query('begin; set local enable_seqscan = off; set local enable_sort = off');
  for (const { sql: text, parameters } of seen) {
    const explained = await client.query<{ 'QUERY PLAN': string }>(`explain ${text}`, [
      ...parameters,
    ]);
    plans.push(explained.rows.map((row) => row['QUERY PLAN']).join('\n'));
  }
  await client.query('rollback');
  client.release();
  assert.match(plans[0] ?? '', /raw_data_ended /);
  assert.match(plans[1] ?? '', /raw_data_ended_of_source /);
  for (const plan of plans) assert.doesNotMatch(plan, /Sort/);
});

test('wrong questions about payloads are refused', async () => {
  for (const path of [
    'raw',
    'raw?status=lost',
    'raw?status=failed&limit=0',
    'raw?status=failed&limit=1001',
    'raw?status=failed&cursor=zzz',
    `raw?status=failed&cursor=${Buffer.from('{"at":"now","id":1}').toString('base64url')}`,
    'raw?status=failed&source_slug=A',
    'raw?status=failed&more=1',
  ]) {
    assert.equal((await collector.get(`/api/v1/admin/${path}`)).status, 422, path);
  }
});

test('a cursor with any member changed is refused, or leads to a page', async () => {
  const values = [
    -1,
    0,
    1.5,
    1e300,
    2 ** 53,
    Number.MAX_SAFE_INTEGER,
    null,
    'x',
    {},
    '2026-02-30 00:00:00+00',
  ];
  const statuses = new Set<number>();
  for (const value of values) {
    for (const position of [
      { at: value, id: 1 },
      { at: 1, id: value },
    ]) {
      const forged = Buffer.from(JSON.stringify(position)).toString('base64url');
      const { status, text } = await collector.get(
        `/api/v1/admin/raw?status=failed&cursor=${forged}`,
      );
      assert.ok(status === 200 || status === 422, `${JSON.stringify(position)}: ${text}`);
      statuses.add(status);
    }
  }
  assert.equal(statuses.size, 2);
});

const cleanup = (query: string) =>
  fetch(`${collector.url}/api/v1/admin/raw-data${query}`, { method: 'DELETE' });

/** How many a removal has removed. */
const removed = async (days: number) =>
  (await (await cleanup(`?older_than_days=${days}`)).json()) as { deleted: number };

test('old payloads are removed through the API, the history of their listing stays', async () => {
  const payload = payloadOf({ source_slug: 'cleaned', price: 50_000, currency: 'USD' });
  const finished: number[] = [];
  let listingId: number | undefined;
  for (const price of [50_000, 49_000]) {
    const sent = await collector.post('/api/v1/ingest', { ...payload, price });
    const { raw_id: id } = sent.json<{ raw_id: number }>();
    finished.push(id);
    await until(`raw record ${id}`, async () => {
      const raw = (await collector.get(`/api/v1/raw/${id}`)).json<Partial<Raw>>();
      listingId = raw.listing_id;
      return raw.status === 'completed';
    });
  }
  assert.equal((await removed(1)).deleted, 0);
  const { deleted } = await removed(0);
  assert.ok(deleted >= 2);
  const answers = await Promise.all(finished.map((id) => collector.get(`/api/v1/raw/${id}`)));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [404, 404],
  );
  const history = (await collector.get(`/api/v1/listings/${listingId}/history`)).json<Item[]>();
  assert.deepEqual(
    history.map((item) => item.raw_id),
    finished.toReversed(),
  );
  const metrics = (await collector.get('/metrics')).text;
  assert.ok(metrics.includes(`collector_raw_deleted_total ${deleted}\n`));
});

test('a removal without a good age is refused', async () => {
  for (const query of ['', '?older_than_days=-1', '?older_than_days=1.5', '?older_than_days=x']) {
    assert.equal((await cleanup(query)).status, 422, query);
  }
  assert.equal((await cleanup('?older_than_days=36501')).status, 422);
  assert.equal((await cleanup('?older_than_days=9&source_slug=a')).status, 422);
});
