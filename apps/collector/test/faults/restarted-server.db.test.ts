import assert from 'node:assert/strict';
import { connect } from '@oselya/db';
import { atEnd, findFreePort } from '@oselya/testing';
import { execFile, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { Tables } from '../../src/tables.ts';
import { repetitions } from '../support/soak.ts';
import { startCollectors } from './collectors.ts';
import { putLoad } from './load.ts';

const SCRIPT = join(import.meta.dirname, '../../../../scripts/postgres');
const run = promisify(execFile);

/** A separate PostgreSQL server. */
export type OwnServer = {
  /** The address of an empty database. */
  url: string;
  /** `fast` ends all connections and shuts down; `immediate` is a crash, and recovers from the log. */
  restart(mode: 'fast' | 'immediate'): Promise<void>;
};

/**
 * Returns the reason against a second server, or undefined if the address belongs to
 * `scripts/postgres`, which can start one.
 */
export function reasonAgainstServer(given: string): string | undefined {
  const known = spawnSync(SCRIPT, ['url'], { encoding: 'utf8' });
  // Standard error has the reason.
  if (known.status !== 0) return `scripts/postgres has no server: ${known.stderr.trim()}`;
  const [wanted, got] = [hostOf(known.stdout.trim()), hostOf(given)];
  return wanted === got ? undefined : `TEST_DATABASE_URL is of ${got}, not of ${wanted}`;
}

/** Returns host and port, with `localhost` as 127.0.0.1. */
function hostOf(url: string): string {
  const { hostname, port } = new URL(url);
  return `${hostname === 'localhost' ? '127.0.0.1' : hostname}:${port || '5432'}`;
}

/** Starts a second server until the file's tests end. */
export async function startServer(): Promise<OwnServer> {
  const env = {
    ...process.env,
    OSELYA_POSTGRES_SERVER: `restarts-${randomBytes(4).toString('hex')}`,
    OSELYA_POSTGRES_PORT: String(await findFreePort()),
  };
  atEnd(async () => {
    await run(SCRIPT, ['destroy', '--yes'], { env });
  });
  const { stdout } = await run(SCRIPT, ['start'], { env });
  return {
    url: stdout.trim(),
    async restart(mode) {
      await run(SCRIPT, ['restart', mode], { env });
    },
  };
}

// The embedded database is in the process: there is no server.
const url = process.env['TEST_DATABASE_URL'];
const unable = url === undefined ? undefined : reasonAgainstServer(url);
const restartable = url === undefined || unable !== undefined ? undefined : await openRestartable();

/** Restarts need a separate server, since other tests share the main one. */
async function openRestartable() {
  const server = await startServer();
  const own = await connect<Tables>({ url: server.url, maxConnections: 2 });
  atEnd(own.close);
  const database = { ...own, url: server.url };
  const collectors = await startCollectors(server.url, { database });
  return { server, db: own.db, collectors };
}

if (url !== undefined) {
  for (const mode of ['immediate', 'fast'] as const) {
    const name = `A server that restarts (${mode}) under load loses and doubles no payload`;
    test(name, { skip: unable ?? false }, async (context) => {
      assert.ok(restartable !== undefined);
      const { server, collectors, db } = restartable;
      const load = await putLoad(collectors, db, mode);
      for (let restart = 0; restart < repetitions({ soak: 2, ci: 1 }); restart += 1) {
        await load.untilMoreAccepted();
        await load.isInProgress();
        await server.restart(mode);
      }
      await load.untilMoreAccepted();
      assert.ok(load.result.unavailable > 0, 'the outage was met');
      await load.end();
      await load.judge(context);
    });
  }

  test(
    'Collectors close every connection after restarts of the database',
    { skip: unable ?? false },
    async () => {
      assert.ok(restartable !== undefined);
      await restartable.collectors.close();
    },
  );
}
