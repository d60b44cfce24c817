import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Database, migrate } from '@oselya/db';
import { createModelClient, type ModelClient } from '@oselya/model';
import { atEnd, until } from '@oselya/testing';
import { fillDataFolder } from '@oselya/testing/database';
import { Registry } from 'prom-client';
import { migrations } from '../../src/database.ts';
import type { Payload } from '../../src/ingest/payload.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createPipeline } from '../../src/pipeline/pipeline.ts';
import { expireLeases, rescueJobs } from '../../src/queue/job-writes.ts';
import { startWorker } from '../../src/queue/worker.ts';
import type { Tables } from '../../src/tables.ts';
import { openWorkerImages, serveImages } from '../support/images.ts';
import {
  countConnections,
  createHarness,
  DIMENSIONS,
  log,
  named,
  openDatabase,
  openModel,
  payloadOf,
  rawRecord,
  store,
  temporaryFiles,
  untilResourcesAreFree,
  watchResources,
} from '../support/pipeline.ts';
import { repetitions } from '../support/soak.ts';
import {
  KILLS,
  killWorkers,
  nextPayload,
  random,
  startAnsweringServer,
  startWorkerProcess,
  STATEMENT_MOMENTS,
} from './kill-workers.ts';
import { countUnfinished, judgeCounts } from './load.ts';
import { startProxy, type StatementMoment } from './proxy.ts';

type Db = Database<Tables>['db'];

const KILLED_NAME = 'worker-to-be-killed';
const CUT_NAME = 'worker-to-be-cut';

const FOLDER_KILLS = repetitions({ soak: 10, ci: 3 });
const FOLDER_PAYLOADS = repetitions({ soak: 60, ci: 30 });

async function createFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-kills-'));
  atEnd(() => rm(folder, { recursive: true }));
  return folder;
}

/** Reads the listings of a source without IDs and times. */
async function findListings(db: Db, source: string) {
  const raws = await db
    .selectFrom('raw_data')
    .select(['id', 'external_id', 'status', 'error', 'claimed_by', 'lease_expires_at'])
    .where('source_slug', '=', source)
    .orderBy('id')
    .execute();
  const order = new Map(raws.map(({ id }, index) => [id, index]));
  const listings = await db
    .selectFrom('property_listings')
    .innerJoin('listing_payloads as current', (on) =>
      on
        .onRef('current.source_slug', '=', 'property_listings.source_slug')
        .onRef('current.external_id', '=', 'property_listings.external_id'),
    )
    .selectAll('property_listings')
    .select(['raw_id', 'completed_hash'])
    .where('property_listings.source_slug', '=', source)
    .orderBy('property_listings.external_id')
    .execute();
  const ids = listings.map(({ id }) => id);
  const externalIds = new Map(listings.map((listing) => [listing.id, listing.external_id]));
  const snapshots = await db
    .selectFrom('listing_snapshots')
    .select(['listing_id', 'raw_id', 'revision', 'listing', 'changes', 'model', 'prompt_version'])
    .where('listing_id', 'in', ids)
    .orderBy('raw_id')
    .execute();
  const enrichments = await db
    .selectFrom('listing_enrichments')
    .select(['listing_id', 'kind', 'value'])
    .where('listing_id', 'in', ids)
    .orderBy('kind')
    .execute();
  const images = await db
    .selectFrom('listing_images')
    .select(['listing_id', 'position', 'url', 'sha256', 'error'])
    .where('listing_id', 'in', ids)
    .orderBy('position')
    .execute();
  const ofListing = <Row extends { listing_id: number }>(rows: Row[]) =>
    rows
      .map(({ listing_id: id, ...row }) => ({ ...row, externalId: externalIds.get(id) ?? '' }))
      .toSorted((one, other) => (one.externalId < other.externalId ? -1 : 1));
  const unique = { id: 0, source_slug: '', created_at: null, updated_at: null };
  const found = {
    raws: raws.map((raw) => ({ ...raw, id: 0 })),
    listings: listings.map(({ raw_id, completed_hash: hash, ...listing }) => {
      return { ...listing, ...unique, raw: order.get(raw_id), isComplete: hash !== null };
    }),
    snapshots: ofListing(snapshots).map((row) => ({ ...row, raw_id: order.get(row.raw_id) })),
    enrichments: ofListing(enrichments).map(({ value, ...row }) => {
      return { ...row, value: { ...value, raw_id: order.get(Number(value['raw_id'])) } };
    }),
    images: ofListing(images),
  };
  return JSON.parse(JSON.stringify(found)) as unknown;
}

/** Compares the result of killed workers with an undisturbed run of the same payloads. */
async function judge(db: Db, { modelUrl, folder }: { modelUrl: string; folder: string }) {
  const model = openModel(modelUrl);
  await using opened = new AsyncDisposableStack();
  opened.defer(() => model.close());
  const { images, close } = await openWorkerImages({ db, model, folder });
  opened.defer(close);
  const harness = createHarness(db, { model, images });
  const payloads = await db.selectFrom('raw_data').select('payload').orderBy('id').execute();
  for (const { payload } of payloads) {
    await harness.process({ ...(payload as unknown as Payload), source_slug: 'control' });
  }
  assert.deepEqual(await findListings(db, 'killed'), await findListings(db, 'control'));
}

const database = process.env['TEST_DATABASE_URL'] === undefined ? undefined : await openDatabase();

if (database?.url === undefined) {
  const title = 'Repeated kills of the embedded database process lose and double no payload';
  test(title, { timeout: 480_000 }, killEmbedded);
} else {
  const { db, url } = database;

  const title = 'Workers killed at every statement and model call lose and double no payload';
  test(title, { timeout: 480_000 }, async (t) => {
    const dataDir = await createFolder();
    const folder = join(dataDir, 'images');
    await using server = await startAnsweringServer();
    const host = await serveImages();
    const { kills, accepted } = await killWorkers(db, {
      url: named(url, KILLED_NAME),
      folder,
      modelUrl: server.url,
      imageHost: host.url,
    });
    assert.equal(kills, KILLS);
    const { counts } = await judgeCounts(db, accepted, 'killed');
    await judge(db, { folder, modelUrl: server.url });
    const images = await db.selectFrom('images').select('described_by').execute();
    assert.ok(images.length > 0 && images.every((image) => image.described_by !== null));
    const connections = () => countConnections(db, KILLED_NAME);
    await untilResourcesAreFree({ servers: [host, server, { connections }], folder: dataDir });
    const repeated = await db
      .selectFrom('raw_data')
      .select('id')
      .where('source_slug', '=', 'killed')
      .where('attempt', '>', 1)
      .execute();
    assert.ok(repeated.length > 0);
    t.diagnostic(`${kills} kills, ${counts}, ${repeated.length} of them claimed again`);
  });

  test('A job survives a connection that breaks at any statement', async (t) => {
    const dataDir = await createFolder();
    const host = await serveImages();
    const target = { db, url: named(url, CUT_NAME), dataDir, imageHost: host.url };
    // The first job opens resources that stay.
    await processWithCut(target);
    for (const moment of STATEMENT_MOMENTS) {
      const untilFree = await watchResources({ database, dataDir, host });
      const { raw, cuts, readings } = await processWithCut(target, moment);
      const point = `${moment.when} ${moment.name}`;
      assert.equal(cuts, 1, point);
      assert.deepEqual([raw.status, raw.error, raw.attempts], ['completed', null, 1], point);
      assert.ok(readings <= 2, `${point}: the payload is read again once at most`);
      await untilFree();
      const connections = () => countConnections(db, CUT_NAME);
      await until('the connections to end', async () => (await connections()) === 0);
    }
    t.diagnostic(`${STATEMENT_MOMENTS.length} cuts, 0 lost, 0 doubled`);
  });
}

/** Processes one payload with a worker whose connections break at a moment, and stops it. */
async function processWithCut(
  target: { db: Db; url: string; dataDir: string; imageHost: string },
  moment: StatementMoment = { statement: 'none', when: 'before' },
) {
  const { db, url, dataDir, imageHost } = target;
  const payload = payloadOf();
  const image_urls = [`${imageHost}/${payload.external_id}.png`];
  const rawId = await store(db, { ...payload, image_urls });
  let [cuts, readings] = [0, 0];
  await using opened = new AsyncDisposableStack();
  const onMoment = ({ cut }: { cut: () => void }) => {
    cuts += 1;
    cut();
  };
  const proxy = opened.use(await startProxy(new URL(url), { ...moment, onMoment }));
  const cuttable = await connect<Tables>({ url: proxy.url, maxConnections: 4 });
  opened.defer(cuttable.close);
  const mock = createModelClient({
    mode: 'mock',
    timeoutMs: 10_000,
    embeddingDimensions: DIMENSIONS,
  });
  const generateObject: ModelClient['generateObject'] = (request) => {
    if (request.image === undefined) readings += 1;
    return mock.generateObject(request);
  };
  const model = { ...mock, generateObject };
  const folder = join(dataDir, 'images');
  const { images, close } = await openWorkerImages({ db: cuttable.db, model, folder });
  opened.defer(close);
  const deps = { db: cuttable.db, metrics: createMetrics(new Registry()), log };
  const worker = startWorker({
    ...deps,
    process: createPipeline({ ...deps, model, images, modelTimeoutMs: 10_000 }),
    breaker: model.breaker,
    slots: 1,
    // Long enough for no lease to expire.
    leaseMs: 600_000,
    maxAttempts: 1,
    pollMs: 20,
  });
  const stop = () => worker.stop({ timeoutMs: 20_000 });
  opened.defer(stop);
  const raw = await until('the job to end', async () => {
    const found = await rawRecord(db, rawId);
    return found.status !== 'pending' && found.status !== 'processing' && found;
  });
  await stop();
  assert.equal(cuttable.pool.totalCount, cuttable.pool.idleCount, 'no connection is in use');
  assert.deepEqual(await temporaryFiles(dataDir), []);
  return { raw, cuts, readings };
}

/** Kills the process of the embedded database, whose folder only one process can open at a time. */
async function killEmbedded(t: { diagnostic: (message: string) => void }): Promise<void> {
  await using server = await startAnsweringServer();
  const host = await serveImages();
  const root = await createFolder();
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
      accepted.push(await store(db, nextPayload(nth, host.url)));
    }
  });
  for (let kill = 0; kill < FOLDER_KILLS; kill += 1) {
    const worker = startWorkerProcess({ dataDir, folder, modelUrl: server.url });
    const target = server.state.requests + 1 + Math.floor(random() * 8);
    await until('requests to the model', () => server.state.requests >= target);
    await sleep(random() * 15);
    worker.child.kill('SIGKILL');
    await worker.ended;
  }
  await use(async (db) => {
    const unfinished = await countUnfinished(db);
    await expireLeases(db);
    await rescueJobs(db, 1000);
    const model = openModel(server.url);
    const { images, close } = await openWorkerImages({ db, model, folder });
    const harness = createHarness(db, { model, images });
    while ((await countUnfinished(db)) > 0) await harness.runNext();
    await close();
    await model.close();
    const { counts } = await judgeCounts(db, accepted, 'killed');
    await judge(db, { folder, modelUrl: server.url });
    await untilResourcesAreFree({ servers: [host], folder: root });
    t.diagnostic(`${FOLDER_KILLS} kills, ${counts}, ${unfinished} of them left by the last one`);
  });
}
