import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect } from '@oselya/db';
import { atEnd } from '@oselya/testing';
import type { Tables } from '../../src/tables.ts';
import { startCollectors } from './collectors.ts';
import { reasonAgainstServer, startServer } from './own-server.ts';
import { putLoad } from './put-load.ts';
import { repetitions } from '../support/soak.ts';

// The embedded database is in the process: there is no server.
const url = process.env['TEST_DATABASE_URL'];
const unable = url === undefined ? undefined : reasonAgainstServer(url);
const restartable = url === undefined || unable !== undefined ? undefined : await openRestartable();

/** Only a server of the test's own may be restarted: other tests use the one that they all run on. */
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
    const name = `a server that restarts (${mode}) under load loses and doubles nothing`;
    test(name, { skip: unable ?? false }, async (context) => {
      assert.ok(restartable !== undefined);
      const { server, collectors, db } = restartable;
      const load = await putLoad(collectors, db, mode);
      for (let restart = 0; restart < repetitions({ soak: 2, ci: 1 }); restart += 1) {
        await load.goesOn();
        await load.isInProgress();
        await server.restart(mode);
      }
      await load.goesOn();
      assert.ok(load.result.unavailable > 0, 'the outage was met');
      await load.end();
      await load.judge(context);
    });
  }

  test(
    'collectors that met restarts and end leave no connection',
    { skip: unable ?? false },
    async () => {
      assert.ok(restartable !== undefined);
      await restartable.collectors.close();
    },
  );
}
