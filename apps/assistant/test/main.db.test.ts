import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { fillDataFolder, openTestDatabase } from '@oselya/testing/database';
import { ConfigError, createLogger, StartError } from '@oselya/kit';
import {
  createChunk,
  createStreamedResponse,
  createToolCallChunk,
  startModelServer,
  type ReceivedRequest,
} from '@oselya/model/testing';
import { openFolder, until } from '@oselya/testing';
import { sql } from 'kysely';
import manifest from '../package.json' with { type: 'json' };
import { TOOLS } from '../src/conversations/tools/tools.ts';
import { asyncapi, migrateDatabase, openapi, start } from '../src/main.ts';

const database = await openTestDatabase<never>();
const lines: string[] = [];
const log = createLogger({
  level: 'info',
  service: 'assistant',
  destination: { write: (line) => lines.push(line) },
});
const env = {
  ASSISTANT_PORT: '0',
  IDP_BASE_URL: 'http://127.0.0.1:1',
  SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64url'),
};

const listTables = async () => {
  const { rows } = await sql<{ name: string }>`
    select table_name as name from information_schema.tables where table_schema = 'public'
    order by 1`.execute(database.db);
  return rows.map(({ name }) => name);
};

test('Startup without a key fails before it opens anything', async () => {
  for (const key of [undefined, '', 'short']) {
    await assert.rejects(
      start({ ...env, SVC_AUTH_ENCRYPTION_KEY: key }, { database, log }),
      ConfigError,
    );
  }
  assert.deepEqual(await listTables(), []);
});

test('Startup creates the tables, keeps existing rows, and serves', async () => {
  await sql`
    create table svc_users (
      id text primary key, email text not null, display_name text, role text not null default 'user',
      permissions text not null default '[]', created_at timestamptz, updated_at timestamptz
    )`.execute(database.db);
  const insertion = sql`insert into svc_users (id, email) values ('u-old', 'old@example.test')`;
  await insertion.execute(database.db);
  const assistant = await start(env, { database, log });
  after(assistant.close);
  assert.ok((await listTables()).includes('webhook_events'));
  const { rows } = await sql`select id from svc_users`.execute(database.db);
  assert.deepEqual(rows, [{ id: 'u-old' }]);

  const health = await fetch(`${assistant.url}/health`);
  assert.equal(health.status, 200);
  assert.deepEqual(await health.json(), {
    status: 'degraded',
    checks: {
      database: { status: 'ok' },
      model: { status: 'ok' },
      identity_provider: {
        status: 'degraded',
        detail: 'The identity provider could not be reached (bad port): check IDP_BASE_URL.',
      },
    },
  });
  const metrics = await (await fetch(`${assistant.url}/metrics`)).text();
  assert.match(metrics, /http_request_duration_seconds_count\{method="GET",route="\/health"/);
  assert.ok(lines.some((line) => line.includes('IDP_CLIENT_ID is not set')));
});

test('Startup on a busy port fails and leaves the shared database open and migrated', async () => {
  const assistant = await start(env, { database, log });
  const { port } = new URL(assistant.url);
  await assert.rejects(start({ ...env, ASSISTANT_PORT: port }, { database, log }), StartError);
  await assistant.close();
  assert.deepEqual(await migrateDatabase({}, database), { component: 'assistant', applied: [] });
});

test('A start without a shared database opens and closes the embedded one', async () => {
  const folder = await openFolder();
  await fillDataFolder(folder);
  for (let starts = 0; starts < 2; starts += 1) {
    const assistant = await start({ ...env, DATA_DIR: folder, LOG_LEVEL: 'silent' });
    const response = await fetch(`${assistant.url}/auth/me`);
    assert.equal(response.status, 401);
    await assistant.close();
  }
});

test('The OpenAPI and AsyncAPI documents need no database', async () => {
  const [http, socket] = [await openapi(), await asyncapi()].map((document) =>
    JSON.parse(JSON.stringify(document)),
  );
  assert.deepEqual(http.paths['/auth/me'].get.security, [{ session: [] }]);
  assert.equal(socket.info.version, manifest.version);
  for (const { components } of [http, socket]) {
    assert.equal(components.securitySchemes.session.name, 'svc_auth_session');
  }
});

test('Startup probes whether the chat model calls tools, and logs one line', async () => {
  const call = createToolCallChunk({
    id: '1',
    name: 'search_listings',
    arguments: '{"query":"a"}',
  });
  const stop = createChunk({}, { finishReason: 'stop' });
  for (const [response, expectedLine] of [
    [createStreamedResponse([call, stop]), /"info".*Probed the model server: tools work\./],
    [
      createStreamedResponse([createChunk({ content: 'Ось.' }), stop]),
      /"warn".*tools do not work\. MODEL_CHAT \(m\) answered a search/,
    ],
    [
      { status: 400, body: { error: { message: 'm does not support tools' } } },
      /"warn".*m does not support tools.*needs a MODEL_CHAT/,
    ],
    ['silence', undefined],
  ] as const) {
    const probe = Promise.withResolvers<ReceivedRequest>();
    const respond = (request: ReceivedRequest) => {
      probe.resolve(request);
      return response;
    };
    await using server = await startModelServer(respond, { handlesProbes: true });
    const model = { MODEL_MODE: 'openai', MODEL_BASE_URL: server.url, MODEL_CHAT: 'm' };
    const assistant = await start({ ...env, ...model }, { database, log });
    const { path, body } = await probe.promise;
    assert.equal(path, '/v1/chat/completions');
    assert.equal((body as { tools: object[] }).tools.length, TOOLS.length);
    await until(() => expectedLine === undefined || lines.some((line) => expectedLine.test(line)));
    // Neither startup nor shutdown waits for a silent model server.
    await assistant.close();
  }
});
