import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Database, migrate } from '@oselya/db';
import type { Tables } from '../../src/database.ts';
import type { Payload } from '../../src/ingest/schemas.ts';
import { migrations } from '../../src/migrations.ts';
import { expireLeases } from '../../src/queue/repository.ts';
import { DIMENSIONS, openDatabase, store } from '../support/database.ts';
import { startModelServer } from '../support/model-server.ts';
import { createHarness } from '../support/pipeline.ts';
import { until } from '../support/until.ts';
import { openModel } from './model.ts';
import { randomOf } from './random.ts';
import { type Moment, startWatchingProxy } from './watching-proxy.ts';
import type { WorkerSettings } from './worker-process.ts';

const WORKER = join(import.meta.dirname, 'worker-process.ts');
const random = randomOf(20_260_704);

type Db = Database<Tables>['db'];

/** Payloads of few listings: some change a price, some say the same again, some are no listings. */
function nextPayload(nth: number): Payload {
  const listing = Math.floor(random() * 12);
  const isListing = nth % 9 !== 8;
  return {
    source_slug: 'killed',
    external_id: `${isListing ? 'flat' : 'junk'}-${listing}`,
    description: isListing
      ? `Продам двокімнатну квартиру у Львові, ${50 + listing} м², 3 поверх з 5.`
      : 'Ремонтуємо телефони та ноутбуки, швидко і недорого. Виїзд майстра.',
    ...(isListing ? { price: 1000 * (50 + Math.floor(random() * 3)), currency: 'USD' } : {}),
  };
}

function startWorkerProcess(settings: WorkerSettings) {
  const child = spawn(process.execPath, [WORKER, JSON.stringify(settings)], { stdio: 'inherit' });
  return { child, ended: once(child, 'exit') };
}

/** What is kept of a source's listings, without ids and times. */
async function keptOf(db: Db, source: string) {
  const raws = await db
    .selectFrom('raw_data')
    .select([
      'id',
      'external_id',
      'status',
      'error',
      'claimed_by',
      'lease_expires_at',
      'listing_id',
    ])
    .where('source_slug', '=', source)
    .orderBy('id')
    .execute();
  const order = new Map(raws.map(({ id }, index) => [id, index]));
  const listings = await db
    .selectFrom('property_listings')
    .selectAll()
    .where('source_slug', '=', source)
    .orderBy('external_id')
    .execute();
  const snapshots = await db
    .selectFrom('listing_snapshots')
    .innerJoin('property_listings', 'property_listings.id', 'listing_snapshots.listing_id')
    .select([
      'external_id',
      'listing_snapshots.raw_id',
      'listing',
      'changes',
      'model',
      'prompt_version',
    ])
    .where('source_slug', '=', source)
    .orderBy('listing_snapshots.raw_id')
    .execute();
  const enrichments = await db
    .selectFrom('listing_enrichments')
    .innerJoin('property_listings', 'property_listings.id', 'listing_enrichments.listing_id')
    .select(['external_id', 'kind', 'value'])
    .where('source_slug', '=', source)
    .orderBy('external_id')
    .orderBy('kind')
    .execute();
  const same = { id: 0, source_slug: '', created_at: null, updated_at: null, completed_hash: null };
  const kept = {
    raws: raws.map((raw) => ({ ...raw, id: 0, listing_id: raw.listing_id !== null })),
    listings: listings.map(({ raw_id, ...listing }) => ({
      ...listing,
      ...same,
      raw: order.get(raw_id),
      is_complete: listing.completed_hash !== null,
    })),
    snapshots: snapshots.map(({ raw_id, ...snapshot }) => ({
      ...snapshot,
      raw: order.get(raw_id),
    })),
    enrichments: enrichments.map(({ value, ...enrichment }) => ({
      ...enrichment,
      value: { ...value, raw_id: order.get(Number(value['raw_id'])) },
    })),
  };
  return JSON.parse(JSON.stringify(kept)) as typeof kept;
}

/** Judges what the killed workers left by what one that nobody disturbs makes of the same payloads. */
async function judge(db: Db, modelUrl: string | undefined): Promise<void> {
  const model = openModel(modelUrl);
  after(() => model.close());
  const harness = createHarness(db, { model });
  const payloads = await db.selectFrom('raw_data').select('payload').orderBy('id').execute();
  for (const { payload } of payloads) {
    // The ingest has checked it.
    await harness.process({ ...(payload as unknown as Payload), source_slug: 'control' });
  }
  const [killed, control] = [await keptOf(db, 'killed'), await keptOf(db, 'control')];
  assert.equal(killed.raws.length, payloads.length);
  assert.deepEqual(killed, control);
  const statuses = new Set(killed.raws.map(({ status }) => status));
  assert.ok([...statuses].every((status) => ['completed', 'invalid'].includes(status)));
}

async function countLeft(db: Db): Promise<number> {
  const { n } = await db
    .selectFrom('raw_data')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('status', 'in', ['pending', 'processing'])
    .executeTakeFirstOrThrow();
  return n;
}

/** A statement of each stage that has one, and of the queue before and after them. */
const STATEMENTS = {
  claim: 'with recursive',
  load: 'as "completedHash"',
  upsert: 'insert into property_listings',
  'snapshot, reading': 'from "listing_snapshots"',
  'snapshot, writing': 'insert into listing_snapshots',
  'enrich, reading': 'from "listing_images"',
  'enrich, writing': 'delete from listing_enrichments',
  'embed, writing': 'embedding_text_hash = $',
  finish: 'set completed_hash = ',
};

const EACH = 3;
const AT_ONCE = 3;

/** Kills workers before and after each stage's statements, while others go on. */
async function killByStatements(db: Db, url: string): Promise<Map<string, number>> {
  const moments = Object.entries(STATEMENTS).flatMap(([name, statement]) =>
    (['before', 'after'] as const).flatMap((when) =>
      Array.from({ length: EACH }, (_, nth) => ({ name, statement, when, nth: nth + 1 })),
    ),
  );
  const waiting = moments.toSorted(() => random() - 0.5);
  const kills = new Map<string, number>();
  let stored = 0;
  const over = new AbortController();

  async function feed(): Promise<void> {
    while (!over.signal.aborted) {
      if ((await countLeft(db)) < 12) {
        for (let more = 0; more < 6; more += 1) await store(db, nextPayload((stored += 1)));
      }
      await sleep(20);
    }
  }

  async function killAt(moment: Moment & { name: string }): Promise<void> {
    const proxy = await startWatchingProxy(new URL(url), moment, () =>
      worker.child.kill('SIGKILL'),
    );
    const worker = startWorkerProcess({ url: proxy.url });
    const [, signal] = (await worker.ended) as [number | null, string | null];
    assert.equal(signal, 'SIGKILL', 'the worker ended by itself');
    await proxy.close();
    const point = `${moment.name}, ${moment.when}`;
    kills.set(point, (kills.get(point) ?? 0) + 1);
  }

  async function killOnAndOn(): Promise<void> {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) await killAt(next);
  }

  const killers = Promise.all(Array.from({ length: AT_ONCE }, killOnAndOn));
  await Promise.all([feed(), killers.finally(() => over.abort())]);
  // One that is left alone ends what they left.
  const last = startWorkerProcess({ url });
  await until('the queue to be empty', async () => (await countLeft(db)) === 0);
  last.child.kill('SIGKILL');
  await last.ended;
  return kills;
}

const FOLDER_KILLS = 6;

/** Kills the one process that has the embedded database, some time after a request to the model. */
async function killByRequests(
  folder: string,
  server: Awaited<ReturnType<typeof startModelServer>>,
) {
  for (let kill = 0; kill < FOLDER_KILLS; kill += 1) {
    const worker = startWorkerProcess({ dataDir: folder, modelUrl: server.url });
    const wanted = server.state.requests + 1 + Math.floor(random() * 8);
    await until('requests to the model', () => server.state.requests >= wanted);
    await sleep(random() * 15);
    worker.child.kill('SIGKILL');
    await worker.ended;
  }
}

const database = await openDatabase();
const { url } = database;

if (url !== undefined) {
  test('workers killed before and after every statement', { timeout: 300_000 }, async (t) => {
    const kills = await killByStatements(database.db, url);
    const total = [...kills.values()].reduce((sum, count) => sum + count, 0);
    assert.equal(total, 2 * EACH * Object.keys(STATEMENTS).length);
    assert.ok(total >= 50);
    await judge(database.db, undefined);
    const { rescued, payloads } = await database.db
      .selectFrom('raw_data')
      .select((eb) => [
        eb.fn.countAll<number>().as('payloads'),
        eb.fn.countAll<number>().filterWhere('attempt', '>', 1).as('rescued'),
      ])
      .where('source_slug', '=', 'killed')
      .executeTakeFirstOrThrow();
    assert.ok(rescued > 0);
    t.diagnostic(`${total} kills, ${payloads} payloads, ${rescued} of them taken more than once`);
  });
} else {
  test(
    'the process of the embedded database killed again and again',
    { timeout: 120_000 },
    async (t) => {
      const server = await startModelServer();
      after(server.close);
      const folder = mkdtempSync(join(tmpdir(), 'oselya-kills-'));
      after(() => rmSync(folder, { recursive: true }));
      const dataDir = join(folder, 'var');
      const use = async (work: (db: Db) => Promise<void>) => {
        const embedded = await connect<Tables>({ dataDir });
        try {
          await migrate(embedded, migrations({ EMBEDDING_DIMENSIONS: DIMENSIONS }));
          await work(embedded.db);
        } finally {
          await embedded.close();
        }
      };
      await use(async (db) => {
        for (let nth = 0; nth < 60; nth += 1) await store(db, nextPayload(nth));
      });
      await killByRequests(dataDir, server);
      await use(async (db) => {
        await expireLeases(db);
        const left = await countLeft(db);
        await db
          .updateTable('raw_data')
          .set({ status: 'pending' })
          .where('status', '=', 'processing')
          .execute();
        const model = openModel(server.url);
        after(() => model.close());
        const harness = createHarness(db, { model });
        while ((await countLeft(db)) > 0) await harness.runNext();
        await judge(db, server.url);
        t.diagnostic(`${FOLDER_KILLS} kills, 60 payloads, ${left} of them left by the last one`);
      });
    },
  );
}
