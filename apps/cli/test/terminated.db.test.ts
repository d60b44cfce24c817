import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import type { Tables } from '@oselya/collector';
import { findFreePort, openFolder, startProcess, until } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import {
  createConstantHandler,
  createConstantVector,
  startModelServer,
} from '@oselya/model/testing';
import { sql } from 'kysely';
import { BIN } from './support/oselya.ts';

const DIMENSIONS = 16;
/** Application name of the processes' database connections. */
const APPLICATION_NAME = 'to-be-terminated';
const SHUTDOWN_SECONDS = 5;
/** Error fields that may be logged. */
const LOGGED_FIELDS = new Set(['type', 'message', 'stack', 'code', 'severity', 'cause']);

/** Starts a model server that never responds to stuck payloads and delays responses to slow payloads. */
async function startBlockedModel() {
  const { promise: releasePromise, resolve: release } = Promise.withResolvers<void>();
  const answer = createConstantHandler({ createVector: createConstantVector(DIMENSIONS) });
  const blocked = { requestCount: 0 };
  const server = await startModelServer(async (request) => {
    const question = JSON.stringify(request.body);
    const isExtraction = request.path.endsWith('/chat/completions');
    if (isExtraction && /slow|stuck/.test(question)) {
      blocked.requestCount += 1;
      if (question.includes('stuck')) return 'silence';
      await releasePromise;
    }
    return answer(request);
  });
  return { ...server, blocked, release };
}

const getOutput = ({ output }: ReturnType<typeof startProcess>) => output.stdout + output.stderr;

// An embedded database has no server connections.
if (process.env['TEST_DATABASE_URL'] !== undefined) {
  const { db, url = '' } = await openTestDatabase<Tables>();
  const address = new URL(url);
  address.searchParams.set('application_name', APPLICATION_NAME);
  const env = {
    DATABASE_URL: address.href,
    DATA_DIR: await openFolder(),
    EMBEDDING_DIMENSIONS: String(DIMENSIONS),
    MIN_FREE_DISK_MB: '0',
    ASSISTANT_PORT: '0',
    COLLECTOR_PORT: '0',
  };

  test('a terminated collector and worker finish or return their jobs', async (t) => {
    const model = await startBlockedModel();
    t.after(model.close);
    const settings = {
      ...env,
      MODEL_MODE: 'openai',
      MODEL_BASE_URL: model.url,
      MODEL_CHAT: 'chat',
      MODEL_EMBEDDING: 'embedding',
      COLLECTOR_WORKERS: '2',
      COLLECTOR_SHUTDOWN_SECONDS: String(SHUTDOWN_SECONDS),
    };
    const collector = startProcess([BIN, 'collector'], { env: settings });
    const getUrl = () => /Server listening at (http:[^"]+)/.exec(getOutput(collector))?.[1];
    await until('the collector to listen', () => getUrl() !== undefined);
    const ingest = async (names: readonly string[]): Promise<void> => {
      for (const name of names) {
        const payload = { source_slug: 'one', external_id: name, description: `Квартира: ${name}` };
        const { status } = await fetch(`${getUrl()}/api/v1/ingest`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(payload),
        });
        assert.equal(status, 202);
      }
    };
    await ingest(['slow-1', 'stuck-1']);
    await until('its jobs to be held', () => model.blocked.requestCount === 2);
    const workerPort = String(await findFreePort());
    const workerEnv = { ...settings, COLLECTOR_WORKER_PORT: workerPort };
    const worker = startProcess([BIN, 'worker'], { env: workerEnv });
    await ingest(['slow-2', 'stuck-2']);
    await until('the jobs of the worker to be held', () => model.blocked.requestCount === 4);
    await ingest(['next']);

    for (const { child } of [collector, worker]) child.kill('SIGTERM');
    for (const role of [collector, worker]) {
      await until('the shutdown to begin', () => getOutput(role).includes('"signal":"SIGTERM"'));
    }
    for (const base of [getUrl(), `http://127.0.0.1:${workerPort}`]) {
      const readyResponse = await fetch(`${base}/health/ready`);
      assert.equal(readyResponse.status, 503);
      assert.match(await readyResponse.text(), /The process is ending/);
      assert.equal((await fetch(`${base}/health/live`)).status, 200);
    }
    const response = await fetch(`${getUrl()}/api/v1/admin/queue`);
    assert.deepEqual([response.status, response.headers.get('retry-after')], [503, '5']);
    model.release();
    for (const [service, role] of Object.entries({ collector, worker })) {
      assert.equal((await role.ended).status, 0, getOutput(role));
      const services = getOutput(role).match(/(?<="service":")\w+/g);
      assert.deepEqual([...new Set(services)], [service]);
    }

    const { rows } = await sql<{ name: string; status: string; attempts: number; by: null }>`
      select external_id as name, status, attempts, claimed_by as by
      from raw_data order by external_id`.execute(db);
    assert.deepEqual(
      rows.map(({ name, status, attempts, by }) => `${name} ${status} ${attempts} ${by}`),
      [
        'next pending 0 null',
        'slow-1 completed 1 null',
        'slow-2 completed 1 null',
        'stuck-1 pending 0 null',
        'stuck-2 pending 0 null',
      ],
    );
    await until('their connections to be closed', async () => {
      const { rows: openConnections } = await sql`
        select from pg_stat_activity where application_name = ${APPLICATION_NAME}`.execute(db);
      return openConnections.length === 0 && (await model.connections()) === 0;
    });
  });

  test('cut connections are logged without the data of their clients', async () => {
    const settings = {
      ...env,
      SVC_AUTH_ENCRYPTION_KEY: randomBytes(32).toString('base64url'),
      ASSISTANT_PORT: String(await findFreePort()),
      COLLECTOR_PORT: String(await findFreePort()),
      DEV_IDP_PORT: String(await findFreePort()),
    };
    for (const role of ['assistant', 'collector', 'dev']) {
      const service = startProcess([BIN, role], { env: settings });
      await until(`${role} to wait for notifications`, async () => {
        const { rows } = await sql`
          select from pg_stat_activity
          where application_name = ${APPLICATION_NAME} and state = 'idle' and query like 'listen%'`.execute(
          db,
        );
        return rows.length > 0;
      });
      await sql`select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = ${APPLICATION_NAME}`.execute(db);
      // The last line may be incomplete.
      const lines = () =>
        getOutput(service)
          .split('\n')
          .slice(0, -1)
          .filter((line) => line.includes('a database connection broke'));
      // A connection that is being opened breaks without an error from the server.
      await until(`${role} to notice`, () => lines().some((line) => line.includes('57P01')));
      await service.kill();
      for (const line of lines()) {
        const { err } = JSON.parse(line) as { err: { message: string; code?: string } };
        assert.deepEqual(
          Object.keys(err).filter((key) => !LOGGED_FIELDS.has(key)),
          [],
        );
      }
      assert.match(lines().join(''), /"code":"57P01","severity":"FATAL"/);
      assert.doesNotMatch(getOutput(service), /secretKey|processID|connectionParameters|"query"/);
    }
  });
}
