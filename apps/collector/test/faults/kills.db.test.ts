import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Database, migrate } from '@oselya/db';
import { atEnd, until } from '@oselya/testing';
import { fillDataFolder } from '@oselya/testing/database';
import type { Tables } from '../../src/tables.ts';
import { migrations } from '../../src/database.ts';
import { expireLeases, rescueJobs } from '../../src/queue/job-writes.ts';
import {
  countConnections,
  named,
  DIMENSIONS,
  openDatabase,
  store,
  untilResourcesAreFree,
  createHarness,
  openModel,
} from '../support/pipeline.ts';
import { startAnsweringServer } from './answering-server.ts';
import { countRaws } from './judge.ts';
import { KILLS, killWorkers } from './kill-workers.ts';
import { countLeft, judge, nextPayload, random } from './killed-load.ts';
import { openWorkerImages, serveImages } from '../support/images.ts';
import { startWorkerProcess } from './kill-workers.ts';
import { repetitions } from '../support/soak.ts';

type Db = Database<Tables>['db'];

/** The connection name of the workers. */
const NAME = 'worker-to-be-killed';

const FOLDER_KILLS = repetitions({ soak: 10, ci: 3 });
const FOLDER_PAYLOADS = repetitions({ soak: 60, ci: 30 });

/** Kills the process of the embedded database some time after a request to the model. */
async function killByRequests(
  folders: { dataDir: string; folder: string },
  server: Awaited<ReturnType<typeof startAnsweringServer>>,
) {
  for (let kill = 0; kill < FOLDER_KILLS; kill += 1) {
    const worker = startWorkerProcess({ ...folders, modelUrl: server.url });
    const wanted = server.state.requests + 1 + Math.floor(random() * 8);
    await until('requests to the model', () => server.state.requests >= wanted);
    await sleep(random() * 15);
    worker.child.kill('SIGKILL');
    await worker.ended;
  }
}

/** Only one process at a time can open the folder of the embedded database. */
const database = process.env['TEST_DATABASE_URL'] === undefined ? undefined : await openDatabase();

/** Checks that accepted payloads are stored once in a valid state, and returns the counts. */
async function judgeCounts(db: Db, accepted: readonly number[]): Promise<string> {
  const counts = await countRaws(db, { source: 'killed', ids: accepted });
  const { invalid, completed, named: listings } = counts;
  assert.deepEqual(counts, {
    stored: accepted.length,
    known: new Set(accepted).size,
    unfinished: 0,
    completed: accepted.length - invalid,
    invalid,
    failed: 0,
    held: 0,
    listings,
    current: listings,
    named: listings,
  });
  return `${accepted.length} accepted and stored, 0 lost, 0 doubled, ${completed} completed, ${invalid} invalid`;
}

async function openFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-kills-'));
  atEnd(() => rm(folder, { recursive: true }));
  return folder;
}

if (database?.url !== undefined) {
  const { db, url } = database;

  test(
    'Workers killed at every statement and model call lose and double no payload',
    { timeout: 480_000 },
    async (t) => {
      const dataDir = await openFolder();
      const folder = join(dataDir, 'images');
      await using server = await startAnsweringServer();
      const imageHost = await serveImages();
      const { kills, accepted } = await killWorkers(db, {
        url: named(url, NAME),
        folder,
        modelUrl: server.url,
        imageHost: imageHost.url,
      });
      const total = [...kills.values()].reduce((sum, count) => sum + count, 0);
      assert.equal(total, KILLS);
      const counts = await judgeCounts(db, accepted);
      await judge(db, { folder, modelUrl: server.url });
      const stored = await db.selectFrom('images').select(['sha256', 'described_by']).execute();
      assert.ok(stored.length > 0 && stored.every((image) => image.described_by !== null));
      const connections = () => countConnections(db, NAME);
      await untilResourcesAreFree({
        servers: [imageHost, server, { connections }],
        folder: dataDir,
      });
      const { rescued } = await db
        .selectFrom('raw_data')
        .select((eb) => eb.fn.countAll<number>().filterWhere('attempt', '>', 1).as('rescued'))
        .where('source_slug', '=', 'killed')
        .executeTakeFirstOrThrow();
      assert.ok(rescued > 0);
      t.diagnostic(
        `${total} kills, ${counts}, ${rescued} of them taken more than once, ${stored.length} images`,
      );
    },
  );
} else {
  test(
    'Repeated kills of the embedded database process lose and double no payload',
    { timeout: 480_000 },
    async (t) => {
      await using server = await startAnsweringServer();
      const imageHost = await serveImages();
      const root = await openFolder();
      const [dataDir, folder] = [join(root, 'var'), join(root, 'images')];
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
      const accepted: number[] = [];
      await use(async (db) => {
        for (let nth = 0; nth < FOLDER_PAYLOADS; nth += 1) {
          accepted.push(await store(db, nextPayload(nth, imageHost.url)));
        }
      });
      await killByRequests({ dataDir, folder }, server);
      await use(async (db) => {
        const left = await countLeft(db);
        await expireLeases(db);
        await rescueJobs(db, 1000);
        const model = openModel(server.url);
        t.after(() => model.close());
        const { images, close } = await openWorkerImages({ db, model, folder });
        const harness = createHarness(db, { model, images });
        while ((await countLeft(db)) > 0) await harness.runNext();
        await close();
        const counts = await judgeCounts(db, accepted);
        await judge(db, { folder, modelUrl: server.url });
        await untilResourcesAreFree({ servers: [imageHost], folder: root });
        t.diagnostic(`${FOLDER_KILLS} kills, ${counts}, ${left} of them left by the last one`);
      });
    },
  );
}
