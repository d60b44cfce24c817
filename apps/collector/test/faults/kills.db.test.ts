import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Database, migrate } from '@oselya/db';
import { atEnd, fillDataFolder } from '@oselya/db/testing';
import type { Tables } from '../../src/database/tables.ts';
import { migrations } from '../../src/database/migrations.ts';
import { expireLeases, rescueJobs } from '../../src/queue/leases.sql.ts';
import { countConnections, named } from '../support/connections.ts';
import { DIMENSIONS, openDatabase, store } from '../support/database.ts';
import { startModelServer } from '../support/model-server.ts';
import { untilNothingIsLeft } from '../support/nothing-left.ts';
import { createHarness } from '../support/pipeline.ts';
import { until } from '../support/until.ts';
import { startAnsweringServer } from './answering-server.ts';
import { KILLS, killWorkers } from './kill-workers.ts';
import { countLeft, judge, nextPayload, random } from './killed-load.ts';
import { openModel } from './model.ts';
import { servePictures } from './serve-pictures.ts';
import { startWorkerProcess } from './start-worker.ts';

type Db = Database<Tables>['db'];

/** By this the server tells the connections of the workers from those of the test. */
const NAME = 'worker-to-be-killed';

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

async function openFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-kills-'));
  atEnd(() => rm(folder, { recursive: true }));
  return folder;
}

if (url !== undefined) {
  const { db } = database;

  test(
    'workers killed before and after every statement and call, and at any moment',
    { timeout: 480_000 },
    async (t) => {
      const dataDir = await openFolder();
      const folder = join(dataDir, 'images');
      await using server = await startAnsweringServer();
      const pictures = await servePictures();
      const kills = await killWorkers(db, {
        url: named(url, NAME),
        folder,
        modelUrl: server.url,
        pictures: pictures.url,
      });
      const total = [...kills.values()].reduce((sum, count) => sum + count, 0);
      assert.equal(total, KILLS);
      await judge(db, { folder, modelUrl: server.url });
      const stored = await db.selectFrom('images').select(['sha256', 'described_by']).execute();
      assert.ok(stored.length > 0 && stored.every((image) => image.described_by !== null));
      const connections = () => countConnections(db, NAME);
      await untilNothingIsLeft({
        servers: [pictures, server, { connections }],
        folder: dataDir,
      });
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
      await using server = await startModelServer();
      const dataDir = join(await openFolder(), 'var');
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
        t.after(() => model.close());
        const harness = createHarness(db, { model });
        while ((await countLeft(db)) > 0) await harness.runNext();
        await judge(db, { modelUrl: server.url });
        t.diagnostic(`${FOLDER_KILLS} kills, 60 payloads, ${left} of them left by the last one`);
      });
    },
  );
}
