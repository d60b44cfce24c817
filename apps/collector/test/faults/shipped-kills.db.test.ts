import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { atEnd } from '@oselya/testing';
import { countConnections, named, openDatabase, untilNothingIsLeft } from '../support/pipeline.ts';
import { killShipped, MAX_ATTEMPTS, SHIPPED_KILLS } from './kill-shipped.ts';
import { serveImages } from '../support/images.ts';

/** By this the server tells the connections of the workers from those of the test. */
const NAME = 'worker-as-shipped';

// Killing takes a process, and a process takes a database that it can reach.
if (process.env['TEST_DATABASE_URL'] !== undefined) {
  const { db, url = '' } = await openDatabase();

  test('a payload that kills its workers fails, and one retry completes all others', async (t) => {
    const dataDir = await mkdtemp(join(tmpdir(), 'oselya-kills-'));
    atEnd(() => rm(dataDir, { recursive: true }));
    const pictures = await serveImages();
    const { deadly, others, retried } = await killShipped(db, {
      databaseUrl: named(url, NAME),
      dataDir,
      pictures: pictures.url,
    });
    for (const { status, error, attempts } of deadly) {
      assert.deepEqual([status, error?.code, attempts], ['failed', 'lease_lost', MAX_ATTEMPTS]);
    }
    const ends = others.map(({ status, error, attempts }) =>
      status === 'completed' ? status : `${status} ${error?.code} after ${attempts}`,
    );
    assert.deepEqual(new Set(ends), new Set(['completed']));
    // They lost their attempts to the deaths of their workers, and to nothing else.
    for (const { error } of retried) assert.equal(error?.code, 'lease_lost');
    const connections = () => countConnections(db, NAME);
    await untilNothingIsLeft({ servers: [pictures, { connections }], folder: dataDir });
    t.diagnostic(`${SHIPPED_KILLS} kills, ${retried.length} of ${others.length} others retried`);
  });
}
