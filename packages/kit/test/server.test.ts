import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { startServer } from '@oselya/testing';
import { Registry } from 'prom-client';
import { Type } from 'typebox';
import {
  commonErrors,
  createProblemFactory,
  createProblemResponses,
  type HealthChecks,
  registerHealthRoutes,
  html,
  createPageQuery,
  registerHttpMetrics,
  renderPage,
} from '../src/index.ts';
import { serve } from './serve.ts';

const lines: string[] = [];
const table = {
  ...commonErrors,
  tea_only: { status: 409, title: 'Tea only', advice: 'Ask for tea.', retry: false },
  no_milk: { status: 409, title: 'No milk', advice: 'Take it as it is.', retry: false },
};
const problem = createProblemFactory(table);
const problemResponses = createProblemResponses(table);

const app = await serve({
  lines,
  level: 'debug',
  bodyLimit: 200,
  openapi: {
    title: 'Test',
    description: 'A test.',
    version: '1',
    tags: [{ name: 'operations', description: 'For those who run it.' }],
    securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'A key.' } },
  },
});
registerHttpMetrics(app, new Registry(), { token: '' });
let databaseStatus: 'ok' | 'degraded' | 'down' = 'ok';
registerHealthRoutes(app, { database: async () => ({ status: databaseStatus }) });
app.post(
  '/pots/:size',
  {
    schema: {
      params: Type.Object({ size: Type.Integer({ minimum: 1, maximum: 100 }) }),
      body: Type.Object(
        { name: Type.String(), cups: Type.Integer() },
        { additionalProperties: false },
      ),
      response: {
        200: Type.Object({ size: Type.Integer() }),
        ...problemResponses('tea_only', 'no_milk', 422),
      },
    },
  },
  ({ params, body }) => {
    if (body.name === 'coffee') throw problem('tea_only', { cause: new Error('inner') });
    if (body.name === 'crash') throw new Error('the password is hunter2');
    return { size: params.size };
  },
);
await app.register(async (scope) => {
  scope.addSchema(
    Type.Object({ cups: Type.Integer() }, { $id: 'Order', additionalProperties: false }),
  );
  scope.post('/orders', { schema: { body: Type.Ref('Order') } }, () => ({}));
});
app.get('/page', (_request, reply) =>
  reply.type('text/html').send(renderPage({ title: 'T', body: html`<p>${'<script>'}</p>` })),
);
await app.ready();

const post = (url: string, payload: unknown, headers: Record<string, string> = {}) =>
  app.inject({
    method: 'POST',
    url,
    payload: typeof payload === 'string' ? payload : JSON.stringify(payload),
    headers: { 'content-type': 'application/json', ...headers },
  });

const cases: [string, () => ReturnType<typeof post>, number, string][] = [
  ['malformed JSON', () => post('/pots/1', '{"name":'), 400, 'malformed_request'],
  ['prototype poisoning', () => post('/pots/1', '{"__proto__": {}}'), 400, 'malformed_request'],
  ['an empty body', () => post('/pots/1', ''), 400, 'malformed_request'],
  ['an unknown key', () => post('/pots/1', { name: 'a', cups: 1, x: 1 }), 422, 'validation_failed'],
  ['text for a number', () => post('/pots/1', { name: 'a', cups: '1' }), 422, 'validation_failed'],
  ['a bad parameter', () => post('/pots/big', { name: 'a', cups: 1 }), 422, 'validation_failed'],
  [
    'a parameter past all bounds',
    () => post('/pots/1e400', { name: 'a', cups: 1 }),
    422,
    'validation_failed',
  ],
  ['an address that does not exist', () => post('/cups', {}), 404, 'not_found'],
  ['a bad escape in the address', () => post('/%zz', {}), 400, 'malformed_request'],
  ['a body too large', () => post('/pots/1', 'x'.repeat(300)), 413, 'body_too_large'],
  ['an error of the table', () => post('/pots/1', { name: 'coffee', cups: 1 }), 409, 'tea_only'],
  ['a bug', () => post('/pots/1', { name: 'crash', cups: 1 }), 500, 'internal_error'],
  [
    'another content type',
    () => post('/pots/1', 'a=b', { 'content-type': 'text/csv' }),
    415,
    'unsupported_media_type',
  ],
  [
    'plain text',
    () => post('/pots/1', '{"name": "a", "cups": 1}', { 'content-type': 'text/plain' }),
    415,
    'unsupported_media_type',
  ],
];

test('every error is a problem with status and code', async () => {
  for (const [name, send, status, code] of cases) {
    const answer = await send();
    const body = answer.json();
    assert.deepEqual([answer.statusCode, body.status, body.code], [status, status, code], name);
    assert.match(String(answer.headers['content-type']), /^application\/problem\+json/);
    assert.equal(body.request_id, answer.headers['x-request-id']);
    assert.ok(!answer.body.includes('hunter2'));
  }
});

test('405 lists the allowed methods', async () => {
  for (const [method, url, allow] of [
    ['GET', '/pots/1', 'POST'],
    ['HEAD', '/pots/1', 'POST'],
    ['OPTIONS', '/pots/1?size=2', 'POST'],
    ['DELETE', '/orders', 'POST'],
    ['POST', '/page', 'GET, HEAD'],
    ['PUT', '/health/live', 'GET, HEAD'],
    ['POST', '/docs/static/index.html', 'GET, HEAD'],
  ] as const) {
    const answer = await app.inject({ method, url });
    assert.deepEqual([answer.statusCode, answer.headers.allow], [405, allow], `${method} ${url}`);
    if (method !== 'HEAD') assert.equal(answer.json().code, 'method_not_allowed');
  }
  for (const [method, url] of [
    ['OPTIONS', '/cups'],
    ['POST', '/orders/'],
    ['POST', '/pots/1/lid'],
    ['GET', '/docs/static/none.js'],
  ] as const) {
    const answer = await app.inject({ method, url });
    assert.deepEqual([answer.statusCode, answer.headers.allow], [404, undefined], url);
  }
  assert.equal((await app.inject({ method: 'HEAD', url: '/page' })).statusCode, 200);
});

test('prototype keys are rejected as unknown keys', async () => {
  for (const body of ['{"name": {"__proto__": 1}}', '{"constructor": {"prototype": {}}}']) {
    assert.match((await post('/pots/1', body)).json().detail, /has a key "__proto__"/);
  }
  const { detail } = (await post('/pots/1', '{"__proto__": 1')).json();
  assert.match(detail, /not valid JSON/);
});

test('a scope may have its schemas and is as strict', async () => {
  assert.equal((await post('/orders', { cups: 1 })).statusCode, 200);
  assert.equal((await post('/orders', { cups: '1' })).statusCode, 422);
  assert.equal((await post('/orders', { cups: 1, extra: true })).statusCode, 422);
});

test('validation names every place and its error', async () => {
  const { errors } = (await post('/pots/1', { name: 5, extra: true })).json();
  assert.deepEqual(
    errors
      .map((one: { path: string; message: string }) => `${one.path}: ${one.message}`)
      .toSorted(),
    [
      'body/name: must be string',
      'body: must NOT have additional properties: "extra" is unknown',
      "body: must have required property 'cups'",
    ],
  );
});

test('numbers in addresses are coerced', async () => {
  assert.deepEqual((await post('/pots/3', { name: 'a', cups: 1 })).json(), { size: 3 });
});

test('a well-formed request id is kept, another is replaced', async () => {
  const kept = await app.inject({ url: '/health', headers: { 'x-request-id': 'abc-1' } });
  assert.equal(kept.headers['x-request-id'], 'abc-1');
  const replaced = await app.inject({ url: '/health', headers: { 'x-request-id': 'a b\tc' } });
  assert.match(String(replaced.headers['x-request-id']), /^[\da-f-]{36}$/);
});

test('a browser that navigates gets a page with the same status', async () => {
  const answer = await app.inject({
    url: '/nowhere?code=secret',
    headers: { accept: 'text/html' },
  });
  assert.equal(answer.statusCode, 404);
  assert.match(String(answer.headers['content-type']), /^text\/html/);
  assert.match(answer.body, /<h1>Not found<\/h1>/);
});

test('pages escape their values and allow only their style', async () => {
  const answer = await app.inject('/page');
  assert.match(answer.body, /<p>&#60;script&#62;<\/p>/);
  const policy = String(answer.headers['content-security-policy']);
  assert.match(policy, /default-src 'none'/);
  const style = /<style>(.*)<\/style>/s.exec(answer.body)?.[1] ?? '';
  assert.ok(policy.includes(createHash('sha256').update(style).digest('base64')));
});

test('the log has one line a request, without its query', async () => {
  lines.length = 0;
  await app.inject('/nowhere?code=very-secret&state=s');
  const logged = lines.map((line) => JSON.parse(line)).filter((line) => line.msg === 'request');
  assert.equal(logged.length, 1);
  assert.equal(logged[0].status, 404);
  assert.equal(typeof logged[0].request_id, 'string');
  assert.ok(!lines.join('').includes('very-secret'));
});

test('the cause of an internal error is in the log', async () => {
  lines.length = 0;
  await post('/pots/1', { name: 'crash', cups: 1 });
  assert.ok(lines.some((line) => line.includes('the password is hunter2')));
});

test('health is 200 while degraded, 503 when down', async () => {
  const statuses: [string, number][] = [];
  for (const status of ['ok', 'degraded', 'down'] as const) {
    databaseStatus = status;
    const answer = await app.inject('/health');
    statuses.push([answer.json().status, answer.statusCode]);
    assert.deepEqual(answer.json().checks, { database: { status } });
  }
  assert.deepEqual(statuses, [
    ['ok', 200],
    ['degraded', 200],
    ['down', 503],
  ]);
  assert.equal((await app.inject('/health/live')).statusCode, 200);
  assert.equal((await app.inject('/health/ready')).statusCode, 503);
});

test('metrics count requests by route, not by path', async () => {
  const { body } = await app.inject('/metrics');
  assert.match(
    body,
    /http_request_duration_seconds_count\{method="POST",route="\/pots\/:size",status="422"\}/,
  );
  assert.match(body, /process_resident_memory_bytes/);
});

test('metrics with a token need it', async () => {
  const guarded = await serve();
  registerHttpMetrics(guarded, new Registry(), { token: 'a-token-of-metrics' });
  for (const authorization of [
    undefined,
    '',
    'Bearer',
    'Bearer a-token-of-metric',
    'Bearer a-token-of-metrics2',
    'Basic a-token-of-metrics',
    'a-token-of-metrics',
  ]) {
    const headers = authorization === undefined ? {} : { authorization };
    const answer = await guarded.inject({ url: '/metrics', headers });
    assert.equal(answer.statusCode, 401, authorization);
    assert.equal(answer.json().code, 'metrics_token_needed');
    assert.equal(answer.headers['www-authenticate'], 'Bearer');
  }
  for (const authorization of ['Bearer a-token-of-metrics', 'bearer a-token-of-metrics']) {
    const answer = await guarded.inject({ url: '/metrics', headers: { authorization } });
    assert.equal(answer.statusCode, 200);
    assert.match(answer.body, /process_resident_memory_bytes/);
  }
});

test('the OpenAPI document describes the routes and the problem', async () => {
  const document = (await app.inject('/openapi.json')).json();
  assert.ok(document.paths['/pots/{size}'].post.responses['409']);
  assert.ok(document.components.schemas.Problem.properties.request_id);
  const { responses } = document.paths['/pots/{size}'].post;
  assert.deepEqual(Object.keys(responses), ['200', '409', '422', '500']);
  assert.equal(responses['409'].description, 'Tea only; No milk');
  const { examples } = responses['409'].content['application/problem+json'];
  assert.deepEqual(Object.keys(examples), ['tea_only', 'no_milk']);
  assert.deepEqual(examples.no_milk.value, {
    type: 'urn:oselya:error:no_milk',
    title: 'No milk',
    status: 409,
    detail: 'Take it as it is.',
    code: 'no_milk',
    request_id: examples.no_milk.value.request_id,
  });
  assert.equal(document.components.securitySchemes.key.scheme, 'bearer');
  assert.deepEqual(document.tags, [{ name: 'operations', description: 'For those who run it.' }]);
  const page = await app.inject('/docs');
  assert.ok([200, 302].includes(page.statusCode));
});

const healthLines: string[] = [];

async function healthOf(checks: HealthChecks) {
  const server = await serve({ lines: healthLines, level: 'warn' });
  registerHealthRoutes(server, checks);
  return server;
}

test('a failed check is down, and its reason is only logged', async () => {
  const server = await healthOf({
    rejects: async () => Promise.reject(new Error('password of 10.0.0.7 refused')),
    throws: () => {
      throw new Error('no socket');
    },
    refused: () => {
      const cause = Object.assign(new Error('connect 10.0.0.7:5432'), { code: 'ECONNREFUSED' });
      throw Object.assign(new Error('away', { cause }), { code: 'DATABASE_UNREACHABLE' });
    },
    talks: () => {
      throw Object.assign(new Error('no'), { code: 'user olena is unknown' });
    },
  });
  const answer = await server.inject('/health');
  assert.equal(answer.statusCode, 503);
  assert.equal(answer.headers['retry-after'], '5');
  assert.equal(answer.json().checks.rejects.status, 'down');
  assert.equal(answer.json().checks.throws.status, 'down');
  const { rejects, refused, talks } = answer.json().checks;
  assert.equal(rejects.detail, 'The check failed; see the log.');
  assert.equal(refused.detail, 'The check failed (ECONNREFUSED); see the log.');
  assert.equal(talks.detail, 'The check failed; see the log.');
  assert.doesNotMatch(answer.body, /10\.0\.0\.7|socket|olena/);
  const logged = healthLines.map((line) => JSON.parse(line));
  assert.deepEqual(Object.fromEntries(logged.map((line) => [line.check, line.err.message])), {
    rejects: 'password of 10.0.0.7 refused',
    throws: 'no socket',
    refused: 'away',
    talks: 'no',
  });
});

test('a check that does not answer is aborted and down', async () => {
  const stopped = Promise.withResolvers<void>();
  const server = await healthOf({
    silent: (signal) => {
      signal.addEventListener('abort', () => stopped.resolve());
      return new Promise(() => undefined);
    },
  });
  const answer = await server.inject('/health');
  await stopped.promise;
  assert.deepEqual(answer.json().checks.silent, {
    status: 'down',
    detail: 'No answer within 3 s.',
  });
});

test('a check of a hanging peer decides its status', async () => {
  const silent = await startServer(() => 'silence');
  const server = await healthOf({
    peer: async (signal) => {
      const answer = await fetch(silent.url, { signal }).catch(() => undefined);
      return { status: answer === undefined ? 'degraded' : 'ok' };
    },
  });
  for (const path of ['/health', '/health/ready']) {
    const answer = await server.inject(path);
    assert.equal(answer.statusCode, 200);
    assert.equal(answer.json().status, 'degraded');
  }
});

const described = await serve();
const response = {
  200: Type.Array(Type.Number()),
  ...createProblemResponses(commonErrors)(422, 429, 503),
};
const querystring = Type.Object(createPageQuery({ limit: 1, maxLimit: 2 }));
described.get('/list', { schema: { querystring, response } }, () => []);
described.post('/one', { schema: { response } }, () => []);
await described.ready();

type Answer = { headers: Record<string, object>; content: Record<string, object> };
const document: {
  paths: Record<string, Record<string, { responses: Record<string, Answer> }>>;
  components: { headers: Record<string, object> };
} = JSON.parse(JSON.stringify(described.swagger()));
const { '/list': list, '/one': one } = document.paths;
const types = (answer: Answer | undefined) => Object.keys(answer?.content ?? {});

test('a problem of a page route may be a page', () => {
  assert.deepEqual(types(list?.['get']?.responses['422']), [
    'application/problem+json',
    'text/html',
  ]);
  assert.deepEqual(types(list?.['get']?.responses['200']), ['application/json']);
  assert.deepEqual(types(one?.['post']?.responses['422']), ['application/problem+json']);
});
