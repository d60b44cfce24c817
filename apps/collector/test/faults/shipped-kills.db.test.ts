import assert from 'node:assert/strict';
import { atEnd, until } from '@oselya/testing';
import type { Kysely } from 'kysely';
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Payload } from '../../src/ingest/payload.ts';
import { expireLeases } from '../../src/queue/job-writes.ts';
import { requeuePayload } from '../../src/queue/retry.ts';
import type { Tables } from '../../src/tables.ts';
import { serveImages } from '../support/images.ts';
import {
  DIMENSIONS,
  countConnections,
  named,
  openDatabase,
  payloadOf,
  rawRecord,
  store,
  untilResourcesAreFree,
} from '../support/pipeline.ts';
import { repetitions } from '../support/soak.ts';
import { startAnsweringServer } from './answering-server.ts';
import { countLeft, random } from './killed-load.ts';

const WORKER = join(import.meta.dirname, 'shipped-worker.ts');

/** Payloads that kill their worker at the reading. */
const DEADLY = repetitions({ soak: 4, ci: 1 });
/** A value other than the default, so that an ignored setting shows. */
export const MAX_ATTEMPTS = 2;
/** Fewer than the attempts. */
const AT_RANDOM = MAX_ATTEMPTS - 1;
const OTHERS = 30;
const MOST_WORK_MS = 300;
/** The text of the deadly payloads. */
const DEADLY_TEXT = 'Продам однокімнатну квартиру в Одесі, 31 м².';

export const SHIPPED_KILLS = DEADLY * MAX_ATTEMPTS + AT_RANDOM;

/**
 * Kills the shipped worker, with default settings except the attempts, at
 * each reading of a deadly payload and at random moments, with expired leases.
 * Then it retries the other failed payloads once.
 * @returns The records of all payloads at the end, and the number of retried payloads.
 */
export async function killShipped(
  db: Kysely<Tables>,
  given: { databaseUrl: string; dataDir: string; imageHost: string },
) {
  const { databaseUrl, dataDir, imageHost } = given;
  let worker: ChildProcess | undefined;
  await using server = await startAnsweringServer({
    asked: 'reading',
    when: 'before',
    about: DEADLY_TEXT,
    onMoment: () => void worker?.kill('SIGKILL'),
  });
  const env = {
    PATH: process.env['PATH'],
    DATABASE_URL: databaseUrl,
    DATA_DIR: dataDir,
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: server.url,
    MODEL_CHAT: 'chat',
    MODEL_EMBEDDING: 'embedding',
    EMBEDDING_DIMENSIONS: String(DIMENSIONS),
    COLLECTOR_MAX_ATTEMPTS: String(MAX_ATTEMPTS),
    SSRF_ALLOW: '127.0.0.1',
    MIN_FREE_DISK_MB: '0',
    LOG_LEVEL: 'silent',
  };
  const storeOne = (payload: Partial<Payload>) => store(db, payloadOf(payload));
  const others: number[] = [];
  for (let nth = 0; nth < OTHERS; nth += 1) {
    others.push(await storeOne({ image_urls: [`${imageHost}/shipped-${nth}.png`] }));
  }

  /** Starts a worker, kills it or waits for its kill, and expires its leases. */
  async function killOne(isAtRandom: boolean): Promise<void> {
    worker = fork(WORKER, { env });
    const ended = once(worker, 'exit');
    if (isAtRandom) {
      await once(worker, 'message');
      await sleep(random() * MOST_WORK_MS);
      worker.kill('SIGKILL');
    }
    await ended;
    await expireLeases(db);
  }

  for (let kill = 0; kill < AT_RANDOM; kill += 1) await killOne(true);
  const deadly: number[] = [];
  for (let nth = 0; nth < DEADLY; nth += 1) {
    deadly.push(await storeOne({ source_slug: 'deadly', description: DEADLY_TEXT }));
    for (let kill = 0; kill < MAX_ATTEMPTS; kill += 1) await killOne(false);
  }
  const records = (ids: readonly number[]) => Promise.all(ids.map((id) => rawRecord(db, id)));
  // An undisturbed worker ends the rest.
  worker = fork(WORKER, { env });
  const ended = once(worker, 'exit');
  const isEmpty = async () => (await countLeft(db)) === 0;
  await until('the queue to be empty', isEmpty);
  const failed = (await records(others)).filter(({ status }) => status === 'failed');
  for (const { id } of failed) assert.ok(await requeuePayload(db, id));
  await until('the retried payloads to end', isEmpty);
  worker.kill('SIGKILL');
  await ended;
  return { deadly: await records(deadly), others: await records(others), retried: failed };
}

/** The connection name of the workers. */
const NAME = 'worker-as-shipped';

// A killed process needs a database outside it.
if (process.env['TEST_DATABASE_URL'] !== undefined) {
  const { db, url = '' } = await openDatabase();

  test('A payload that kills its workers fails, and one retry completes all other payloads', async (t) => {
    const dataDir = await mkdtemp(join(tmpdir(), 'oselya-kills-'));
    atEnd(() => rm(dataDir, { recursive: true }));
    const imageHost = await serveImages();
    const { deadly, others, retried } = await killShipped(db, {
      databaseUrl: named(url, NAME),
      dataDir,
      imageHost: imageHost.url,
    });
    for (const { status, error, attempts } of deadly) {
      assert.deepEqual([status, error?.code, attempts], ['failed', 'lease_lost', MAX_ATTEMPTS]);
    }
    const ends = others.map(({ status, error, attempts }) =>
      status === 'completed' ? status : `${status} ${error?.code} after ${attempts}`,
    );
    assert.deepEqual(new Set(ends), new Set(['completed']));
    // Only kills of their workers cost attempts.
    for (const { error } of retried) assert.equal(error?.code, 'lease_lost');
    const connections = () => countConnections(db, NAME);
    await untilResourcesAreFree({ servers: [imageHost, { connections }], folder: dataDir });
    t.diagnostic(`${SHIPPED_KILLS} kills, ${retried.length} of ${others.length} others retried`);
  });
}
