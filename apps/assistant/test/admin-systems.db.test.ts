import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, test } from 'node:test';
import { openFolder, startServer } from '@oselya/testing';
import { openAssistant } from './helpers/assistant.ts';
import { createDocumentChecker } from './helpers/openapi.ts';
import { createPerson, pages, SEVERAL_PEOPLE } from './helpers/people.ts';
import { createProblemResponse } from './helpers/scripted-collector.ts';

const KEY = 'admin-key-of-the-assistant';
const inventoryFile = join(await openFolder(), 'endpoints.json');

const collector = {
  /** Response to the next requests. */
  answer: { body: {} } as Awaited<ReturnType<Parameters<typeof startServer>[0]>>,
};
const server = await startServer(() => collector.answer);
const env = { COLLECTOR_URL: server.url, COLLECTOR_ADMIN_API_KEY: KEY };

const assistant = await openAssistant(SEVERAL_PEOPLE);
const app = await assistant.createInstance({ ...env, INVENTORY_FILE: inventoryFile });
const otherApp = await assistant.createInstance({ COLLECTOR_URL: server.url });
const admin = await assistant.signInUser(app, createPerson('u-admin', { isAdmin: true }));
const holder = await assistant.signInUser(
  app,
  createPerson('u-holder', { permissions: ['svc.admin.access', 'svc.debug.access'] }),
);
const { checkResponse } = createDocumentChecker((await app.inject('/openapi.json')).json());

beforeEach(async () => {
  server.requests.length = 0;
  collector.answer = { body: {} };
  await assistant.db.deleteFrom('audit_log').execute();
});

const record = {
  id: 'api',
  name: 'API',
  type: 'http',
  status: 'active',
  exposure: 'public',
  docs: 'docs',
  last_reviewed: '2026-01-01',
  owner_host: 'host',
};

test('The inventory has masked records in pages, and the findings of the whole file', async () => {
  const { id: _id, ...unnamed } = record;
  const records = [
    {
      ...record,
      url: 'https://user:hunter2@api.test/?token=hunter3',
      notes: 'db:hunter4@db.test:5432',
    },
    unnamed,
    { ...record, id: 'ssh://root:hunter5@host' },
    { ...record, auth: 'none' },
  ];
  await writeFile(inventoryFile, JSON.stringify(records));
  const [first, ...rest] = await pages(admin, '/admin/inventory?limit=1');
  assert.ok(first);
  for (const page of [first, ...rest]) {
    checkResponse('GET', '/admin/inventory', page);
    assert.ok(!page.body.includes('hunter'), page.body);
  }
  const body = first.json();
  assert.partialDeepStrictEqual(body, { record_count: 4, is_complete: true });
  const codes = body.findings.map(({ code, record_index }: Record<string, unknown>) => [
    record_index,
    code,
  ]);
  for (const expected of [
    [0, 'lint/credentials-in-url'],
    [0, 'lint/public-without-auth'],
    [1, 'schema/required'],
    [3, 'lint/duplicate-id'],
  ]) {
    assert.ok(
      codes.some((code: unknown[]) => code.join() === expected.join()),
      `${expected.join()} in ${JSON.stringify(codes)}`,
    );
  }
  assert.equal(body.error_count + body.warning_count, body.findings.length);
  const ids = [first, ...rest].flatMap((page) =>
    page.json().records.map(({ id }: { id: string }) => id),
  );
  assert.deepEqual(ids, ['api', 'ssh://***@host', 'api']);
  assert.deepEqual(rest.at(-1)?.json().findings, []);
  assert.partialDeepStrictEqual(await assistant.listAuditEntries('others_data_read'), [
    { actor_id: 'u-admin', user_id: null, details: { data: 'inventory' } },
  ]);
});

test('A missing inventory, an unreadable one and invalid text are reported', async () => {
  const missing = await admin.get('/admin/inventory', { app: otherApp });
  assert.equal(missing.json().code, 'inventory_not_configured');
  assert.match(missing.json().detail, /INVENTORY_FILE/);
  await writeFile(inventoryFile, '[{');
  const invalid = (await admin.get('/admin/inventory')).json();
  assert.partialDeepStrictEqual(invalid, { records: [], error_count: 1, is_complete: false });
  const unreadable = await assistant.createInstance({ INVENTORY_FILE: `${inventoryFile}.none` });
  const { statusCode, body } = await admin.get('/admin/inventory', { app: unreadable });
  assert.deepEqual([statusCode, JSON.parse(body).code], [503, 'unavailable']);
  for (const query of ['limit=0', 'limit=1001', 'cursor=x']) {
    assert.equal((await admin.get(`/admin/inventory?${query}`)).statusCode, 422, query);
  }
  assert.equal((await holder.get('/admin/inventory')).json().code, 'admin_only');
});

test('Requests reach the collector with the key of the assistant, and are recorded', async () => {
  const raw = [
    {
      raw_id: 4211,
      source_slug: 'doshka',
      external_id: 'flat-1',
      status: 'failed',
      attempts: 3,
      error: null,
      listing_id: null,
      request_id: null,
      created_at: '2026-05-04T09:00:00.000Z',
      updated_at: '2026-05-04T09:00:12.000Z',
    },
  ];
  const link = '</api/v1/admin/raw?status=failed&limit=1&cursor=abc>; rel="next"';
  collector.answer = { headers: { link }, body: raw };
  const list = await admin.get('/admin/collector/raw?status=failed&limit=1');
  checkResponse('GET', '/admin/collector/raw', list);
  assert.deepEqual(list.json(), raw);
  assert.equal(
    list.headers.link,
    '</admin/collector/raw?status=failed&limit=1&cursor=abc>; rel="next"',
  );
  await admin.get('/admin/collector/raw?status=failed&limit=1');

  collector.answer = { body: { retried: 17 } };
  const scope = { status: 'failed', source_slug: 'doshka' };
  const retry = await admin.post('/admin/collector/raw/retry', { payload: scope });
  checkResponse('POST', '/admin/collector/raw/retry', retry);
  assert.deepEqual(retry.json(), { retried: 17 });

  const newKey = { name: 'scraper', scopes: ['ingest'] };
  collector.answer = {
    status: 201,
    body: { id: 'k1', ...newKey, source_slugs: null, key: 'oselya_k1_secret' },
  };
  const created = await admin.post('/admin/collector/api-keys', { payload: newKey });
  checkResponse('POST', '/admin/collector/api-keys', created);
  assert.equal(created.statusCode, 201);
  assert.equal(created.headers['cache-control'], 'no-store');

  collector.answer = { body: { id: 'k1' } };
  await admin.request('DELETE', '/admin/collector/api-keys/k1');
  await admin.get('/admin/collector/queue');

  assert.deepEqual(
    server.requests.map(({ method, path, body }) => [method, path, body]),
    [
      ['GET', '/api/v1/admin/raw?status=failed&limit=1', undefined],
      ['GET', '/api/v1/admin/raw?status=failed&limit=1', undefined],
      ['POST', '/api/v1/admin/raw/retry', scope],
      ['POST', '/api/v1/admin/api-keys', newKey],
      ['DELETE', '/api/v1/admin/api-keys/k1', undefined],
      ['GET', '/api/v1/admin/queue', undefined],
    ],
  );
  assert.ok(server.requests.every(({ headers }) => headers.authorization === `Bearer ${KEY}`));
  assert.ok(server.requests.every(({ headers }) => headers.cookie === undefined));
  const changes = await assistant.listAuditEntries('collector_changed');
  assert.deepEqual(
    changes.map(({ details }) => details),
    [
      { request: 'POST /admin/raw/retry', body: JSON.stringify(scope) },
      { request: 'POST /admin/api-keys', body: JSON.stringify(newKey) },
      { request: 'DELETE /admin/api-keys/k1' },
    ],
  );
  // A repeated read is recorded once a minute.
  const reads = await assistant.listAuditEntries('collector_read');
  assert.deepEqual(
    reads.map(({ details }) => details),
    [{ request: 'GET /admin/raw' }, { request: 'GET /admin/queue' }],
  );
});

test('Problems of the collector keep their code, and a denied key is explained', async () => {
  const problems: [status: number, code: string, expectedStatus: number, expectedCode: string][] = [
    [404, 'raw_not_found', 404, 'raw_not_found'],
    [409, 'not_retryable', 409, 'not_retryable'],
    [422, 'validation_failed', 422, 'validation_failed'],
    [503, 'unavailable', 503, 'unavailable'],
    [500, 'internal_error', 503, 'collector_unavailable'],
    [401, 'unauthorized', 503, 'collector_denied'],
    [403, 'forbidden', 503, 'collector_denied'],
  ];
  for (const [status, code, expectedStatus, expectedCode] of problems) {
    const details = { status, title: 'It failed', detail: 'Of the collector.', code };
    const retryAfter = status === 503 ? { 'retry-after': '7' } : {};
    collector.answer = createProblemResponse(details, retryAfter);
    const response = await admin.post('/admin/collector/raw/4211/retry', { app: otherApp });
    checkResponse('POST', '/admin/collector/raw/:raw_id/retry', response);
    assert.deepEqual([response.statusCode, response.json().code], [expectedStatus, expectedCode]);
    if (status === 503) assert.equal(response.headers['retry-after'], '7');
    if (expectedCode === 'collector_denied') {
      assert.match(response.json().detail, /COLLECTOR_ADMIN_API_KEY/);
    }
  }
  assert.ok(server.requests.every(({ headers }) => headers.authorization === undefined));
  for (const answer of ['reset', 'cut', { body: '<html>', status: 502 }] as const) {
    collector.answer = answer;
    assert.equal((await admin.get('/admin/collector/queue')).json().code, 'collector_unavailable');
  }
  assert.deepEqual(await assistant.listAuditEntries('collector_changed'), []);
});

test('Invalid paths, other roles and revoked admins do not reach the collector', async () => {
  for (const [method, path] of [
    ['GET', 'raw/x'],
    ['GET', 'raw/1%2F..%2F..'],
    ['POST', 'raw/0/retry'],
    ['DELETE', 'api-keys/..%2Fqueue'],
  ] as const) {
    const { statusCode } = await admin.request(method, `/admin/collector/${path}`);
    assert.equal(statusCode, 422, `${method} ${path}`);
  }
  assert.equal((await holder.get('/admin/collector/queue')).json().code, 'admin_only');
  const revoked = await assistant.signInUser(app, createPerson('u-former', { isAdmin: true }));
  await admin.post('/admin/users/u-former/sign-out');
  for (const path of ['/admin/collector/queue', '/admin/inventory']) {
    assert.equal((await revoked.get(path)).json().code, 'not_signed_in', path);
  }
  assert.deepEqual(server.requests, []);
});
