import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Database, migrate } from '@oselya/db';
import { fillDataFolder } from '@oselya/db/testing';
import type { Tables } from '../../src/database/tables.ts';
import type { Payload } from '../../src/payload/schema.ts';
import { migrations } from '../../src/database/migrations.ts';
import { expireLeases, rescueJobs } from '../../src/queue/leases.sql.ts';
import { DIMENSIONS, openDatabase, store } from '../support/database.ts';
import { startModelServer } from '../support/model-server.ts';
import { untilNothingIsLeft } from '../support/nothing-left.ts';
import { createHarness } from '../support/pipeline.ts';
import { until } from '../support/until.ts';
import { type CallMoment, startAnsweringServer } from './answering-server.ts';
import { keptOf } from './kept-of.ts';
import { openModel } from './model.ts';
import { openPictures } from './open-pictures.ts';
import { randomOf } from './random.ts';
import { servePictures } from './serve-pictures.ts';
import { STATEMENTS } from './statements.ts';
import { type Moment, startWatchingProxy } from './watching-proxy.ts';
import type { WorkerSettings } from './worker-process.ts';

const WORKER = join(import.meta.dirname, 'worker-process.ts');
const random = randomOf(20_260_704);

type Db = Database<Tables>['db'];

/** After so many payloads a listing has other pictures. */
const NEW_PICTURES = 40;

/**
 * Payloads of few listings: some change a price, some say the same again, some are no listings.
 * @param pictures Where these are; none without.
 */
function nextPayload(nth: number, pictures?: string): Payload {
  const listing = Math.floor(random() * 12);
  const isListing = nth % 9 !== 8;
  const price = 1000 * (50 + Math.floor(random() * 3));
  const shown = `${listing}-${price}-${Math.floor(nth / NEW_PICTURES)}`;
  return {
    source_slug: 'killed',
    external_id: `${isListing ? 'flat' : 'junk'}-${listing}`,
    description: isListing
      ? `Продам двокімнатну квартиру у Львові, ${50 + listing} м², 3 поверх з 5.`
      : 'Ремонтуємо телефони та ноутбуки, швидко і недорого. Виїзд майстра.',
    ...(isListing ? { price, currency: 'USD' } : {}),
    ...(pictures === undefined
      ? {}
      : {
          image_urls: [
            `${pictures}/${shown}.png`,
            `${pictures}/missing`,
            `${pictures}/${listing}.png`,
          ],
        }),
  };
}

type WorkerProcess = ReturnType<typeof startWorkerProcess>;

function startWorkerProcess(settings: WorkerSettings) {
  const child = spawn(process.execPath, [WORKER, JSON.stringify(settings)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  });
  return { child, works: once(child, 'message'), ended: once(child, 'exit') };
}

/** Judges what the killed workers left by what one that nobody disturbs makes of the same payloads. */
async function judge(
  db: Db,
  { modelUrl, folder }: { modelUrl?: string; folder?: string },
): Promise<void> {
  const model = openModel(modelUrl);
  await using opened = new AsyncDisposableStack();
  opened.defer(() => model.close());
  const pictures = await openPictures({ db, model, folder });
  const harness = createHarness(db, { model, images: pictures.images });
  const payloads = await db.selectFrom('raw_data').select('payload').orderBy('id').execute();
  for (const { payload } of payloads) {
    // The ingest has checked it.
    await harness.process({ ...(payload as unknown as Payload), source_slug: 'control' });
  }
  await pictures.close();
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

const AT_ONCE = 3;
/** Kills at any moment. */
const AT_RANDOM = 30;
const MOST_WORK_MS = 400;
/** How long a worker may take to come to its point. */
const PATIENCE_MS = 60_000;

const SIDES = ['before', 'after'] as const;

/** Before and after each statement. */
const STATEMENT_MOMENTS = Object.entries(STATEMENTS).flatMap(([name, statement]) =>
  SIDES.map((when) => ({ name, statement, when, nth: 1 })),
);

/**
 * Amidst each call to the model, and just when it was answered. After a reading that is between the stages
 * `validate` and `normalize`, neither of which has a statement.
 */
const CALL_MOMENTS = (['reading', 'describing', 'embedding'] as const).flatMap((asked) =>
  SIDES.map((when) => ({ asked, when })),
);

const KILLS = STATEMENT_MOMENTS.length + CALL_MOMENTS.length + AT_RANDOM;

/**
 * Kills workers before and after each stage's statements and calls to the model, and at any moment, while
 * others go on.
 */
async function killWorkers(
  db: Db,
  given: { url: string; folder: string; modelUrl: string; pictures: string },
): Promise<Map<string, number>> {
  const { pictures, ...settings } = given;
  const anywhere = Array.from({ length: AT_RANDOM }, () => 'anywhere' as const);
  const waiting = [...STATEMENT_MOMENTS, ...CALL_MOMENTS, ...anywhere]
    .map((what) => ({ what, place: random() }))
    .toSorted((one, other) => one.place - other.place)
    .map(({ what }) => what);
  const kills = new Map<string, number>();
  let stored = 0;
  const over = new AbortController();

  async function feed(): Promise<void> {
    while (!over.signal.aborted) {
      if ((await countLeft(db)) < 12) {
        for (let more = 0; more < 6; more += 1) {
          await store(db, nextPayload((stored += 1), pictures));
        }
      }
      await sleep(20);
    }
  }

  async function killAt(moment: Moment & { name: string }): Promise<void> {
    const proxy = await startWatchingProxy(new URL(settings.url), moment, () =>
      worker.child.kill('SIGKILL'),
    );
    await using opened = new AsyncDisposableStack();
    opened.defer(() => proxy.close());
    const worker = startWorkerProcess({ ...settings, url: proxy.url });
    await killed(worker, `${moment.name}, ${moment.when}`);
  }

  async function killAtCall(moment: CallMoment): Promise<void> {
    const onMoment = () => void worker.child.kill('SIGKILL');
    await using server = await startAnsweringServer({ ...moment, onMoment });
    const worker = startWorkerProcess({ ...settings, modelUrl: server.url });
    await killed(worker, `${moment.asked}, ${moment.when}`);
  }

  /** Waits until a worker has been killed at its point. */
  async function killed(worker: WorkerProcess, point: string): Promise<void> {
    const late = setTimeout(() => worker.child.kill('SIGTERM'), PATIENCE_MS);
    const [, signal] = (await worker.ended) as [number | null, string | null];
    clearTimeout(late);
    assert.equal(signal, 'SIGKILL', `no worker came to the point "${point}"`);
    count(point);
  }

  async function killAnywhere(): Promise<void> {
    const worker = startWorkerProcess(settings);
    await worker.works;
    await sleep(random() * MOST_WORK_MS);
    worker.child.kill('SIGKILL');
    await worker.ended;
    count('at random');
  }

  function count(point: string): void {
    kills.set(point, (kills.get(point) ?? 0) + 1);
  }

  async function killOnAndOn(): Promise<void> {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (next === 'anywhere') await killAnywhere();
      else await ('asked' in next ? killAtCall(next) : killAt(next));
    }
  }

  const killers = Array.from({ length: AT_ONCE }, () =>
    killOnAndOn().catch((error: unknown) => {
      // The others end with what they have begun.
      waiting.length = 0;
      throw error;
    }),
  );
  const killing = Promise.allSettled(killers).finally(() => over.abort());
  await Promise.all([feed(), killing]);
  await Promise.all(killers);
  // One that is left alone ends what they left.
  const last = startWorkerProcess(settings);
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
  test(
    'workers killed before and after every statement and call, and at any moment',
    { timeout: 480_000 },
    async (t) => {
      const { db } = database;
      const dataDir = await mkdtemp(join(tmpdir(), 'oselya-kills-'));
      after(() => rm(dataDir, { recursive: true }));
      const folder = join(dataDir, 'images');
      const server = await startAnsweringServer();
      after(server.close);
      const pictures = await servePictures();
      const kills = await killWorkers(db, {
        url,
        folder,
        modelUrl: server.url,
        pictures: pictures.url,
      });
      const total = [...kills.values()].reduce((sum, count) => sum + count, 0);
      assert.equal(total, KILLS);
      assert.ok(total >= 50);
      await judge(db, { folder, modelUrl: server.url });
      const stored = await db.selectFrom('images').select(['sha256', 'described_by']).execute();
      assert.ok(stored.length > 0 && stored.every((image) => image.described_by !== null));
      await untilNothingIsLeft({ database, servers: [pictures, server], folder: dataDir });
      const { rescued, payloads } = await db
        .selectFrom('raw_data')
        .select((eb) => [
          eb.fn.countAll<number>().as('payloads'),
          eb.fn.countAll<number>().filterWhere('attempt', '>', 1).as('rescued'),
        ])
        .where('source_slug', '=', 'killed')
        .executeTakeFirstOrThrow();
      assert.ok(rescued > 0);
      t.diagnostic(
        `${total} kills, ${payloads} payloads, ${rescued} of them taken more than once, ${stored.length} pictures`,
      );
    },
  );
} else {
  test(
    'the process of the embedded database killed again and again',
    { timeout: 480_000 },
    async (t) => {
      const server = await startModelServer();
      after(server.close);
      const folder = await mkdtemp(join(tmpdir(), 'oselya-kills-'));
      after(() => rm(folder, { recursive: true }));
      const dataDir = join(folder, 'var');
      await fillDataFolder(dataDir);
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
        const left = await countLeft(db);
        await expireLeases(db);
        await rescueJobs(db, 1000);
        const model = openModel(server.url);
        after(() => model.close());
        const harness = createHarness(db, { model });
        while ((await countLeft(db)) > 0) await harness.runNext();
        await judge(db, { modelUrl: server.url });
        t.diagnostic(`${FOLDER_KILLS} kills, 60 payloads, ${left} of them left by the last one`);
      });
    },
  );
}
