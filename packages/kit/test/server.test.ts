import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { startServer } from '@oselya/testing';
import { Registry } from 'prom-client';
import { Type } from 'typebox';
import {
  commonErrors,
  commonProblem,
  createPageQuery,
  createProblemFactory,
  createProblemResponses,
  type HealthChecks,
  html,
  registerHealthRoutes,
  registerHttpMetrics,
  renderPage,
} from '../src/index.ts';
import { serve } from './serve.ts';

const lines: string[] = [];
const errorTable = {
  ...commonErrors,
  busy: { status: 503, title: 'Busy', advice: 'Come again.', canRetry: true },
  tea_only: { status: 409, title: 'Tea only', advice: 'Ask for tea.', canRetry: false },
  no_milk: { status: 409, title: 'No milk', advice: 'Take it as it is.', canRetry: false },
  locked: {
    status: 401,
    title: 'Locked',
    advice: 'Send `key`.',
    page: { advice: 'Knock at the `<door>`.', button: { href: '/knock', text: 'Knock' } },
  },
};
const createProblem = createProblemFactory(errorTable);
const problemResponses = createProblemResponses(errorTable);

const app = await serve({
  lines,
  level: 'debug',
  bodyLimit: 200,
  isOutage: (error) => error instanceof Error && error.message === 'the database is down',
  openapi: {
    title: 'Test',
    description: 'A test.',
    version: '1',
    tags: [{ name: 'operations', description: 'For operators.' }],
    securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'A key.' } },
  },
});
registerHttpMetrics(app, new Registry(), { token: '' });
let databaseStatus: 'ok' | 'degraded' | 'down' = 'ok';
registerHealthRoutes(app, { database: async () => ({ status: databaseStatus }) });
const potSchema = {
  params: Type.Object({ size: Type.Integer({ minimum: 1, maximum: 100 }) }),
  body: Type.Object({ name: Type.String(), cups: Type.Integer() }, { additionalProperties: false }),
  response: {
    200: Type.Object({ size: Type.Integer() }),
    ...problemResponses('tea_only', 'no_milk', 422),
  },
};
app.post('/pots/:size', { schema: potSchema }, ({ params, body }) => {
  if (body.name === 'coffee') throw createProblem('tea_only', { cause: new Error('inner') });
  if (body.name === 'crash') throw new Error('the password is hunter2');
  return { size: params.size };
});
await app.register(async (scope) => {
  scope.addSchema(
    Type.Object({ cups: Type.Integer() }, { $id: 'Order', additionalProperties: false }),
  );
  scope.post('/orders', { schema: { body: Type.Ref('Order') } }, () => ({}));
});
app.get('/page', (_request, reply) =>
  reply.type('text/html').send(renderPage({ title: 'T', body: html`<p>${'<script>'}</p>` })),
);
app.get<{ Params: { status: string } }>('/fails/:status', ({ params }) => {
  throw Object.assign(new Error('as a plugin says it'), { statusCode: Number(params.status) });
});
const failureFactories = {
  outage: () => new Error('the database is down'),
  busy: () => createProblem('busy'),
  'busy-for-long': () => createProblem('busy', { headers: { 'retry-after': '90' } }),
  locked: () => createProblem('locked'),
  'locked-for-cause': () => createProblem('locked', { detail: 'The cause is `x`.' }),
  many: () => {
    const errors = Array.from({ length: 60 }, (_, index) => ({
      path: `p${index}`,
      message: 'bad',
    }));
    return commonProblem('validation_failed', { errors });
  },
};
for (const [name, create] of Object.entries(failureFactories)) {
  app.route({
    method: ['GET', 'POST'],
    url: `/${name}`,
    handler() {
      throw create();
    },
  });
}
const choiceSchema = Type.Union([Type.Literal('own'), Type.Literal('all')]);
const ruleProperties = {
  choice: choiceSchema,
  orNull: Type.Union([choiceSchema, Type.Null()]),
  numbers: Type.Union([Type.Literal(320), Type.Literal(1024)]),
  text: Type.Union([Type.String({ maxLength: 2 }), Type.Null()]),
  fixed: Type.Literal(true),
  listed: Type.Enum(['q', 'w']),
  deep: Type.Union([Type.Object({ a: Type.String() }), Type.Object({ a: Type.Boolean() })]),
  list: Type.Array(choiceSchema),
  count: Type.Integer({ minimum: 1 }),
};
app.post('/rules', { schema: { body: Type.Partial(Type.Object(ruleProperties)) } }, () => ({}));
const phoneBookSchema = Type.Object(
  {
    name: Type.Optional(Type.String()),
    phones: Type.Optional(Type.Array(Type.String(), { maxItems: 20 })),
    more: Type.Optional(Type.Unknown()),
  },
  { additionalProperties: false },
);
const phoneBodyLimit = 10_000_000;
app.post('/phones', { bodyLimit: phoneBodyLimit, schema: { body: phoneBookSchema } }, () => ({}));
const pageQuerySchema = Type.Object(createPageQuery({ limit: 1, maxLimit: 2 }));
const listResponseSchemas = { 200: Type.Array(Type.Number()), ...problemResponses(422, 429, 503) };
app.get(
  '/list',
  { schema: { querystring: pageQuerySchema, response: listResponseSchemas } },
  () => [],
);
await app.ready();

const post = (url: string, payload: unknown, headers: Record<string, string> = {}) =>
  app.inject({
    method: 'POST',
    url,
    payload:
      typeof payload === 'string' || Buffer.isBuffer(payload) ? payload : JSON.stringify(payload),
    headers: { 'content-type': 'application/json', ...headers },
  });
const getPage = (url: string) => app.inject({ url, headers: { accept: 'text/html' } });

test('every error is a problem with status and code', async () => {
  const pot = { name: 'a', cups: 1 };
  for (const [url, payload, status, code, contentType] of [
    ['/pots/1', '{"name":', 400, 'malformed_request'],
    ['/pots/1', '{"__proto__": {}}', 400, 'malformed_request'],
    ['/pots/1', '', 400, 'malformed_request'],
    ['/%zz', pot, 400, 'malformed_request'],
    ['/cups', pot, 404, 'not_found'],
    ['/pots/1', { ...pot, name: 'coffee' }, 409, 'tea_only'],
    ['/pots/1', 'x'.repeat(300), 413, 'body_too_large'],
    ['/pots/1', 'a=b', 415, 'unsupported_media_type', 'text/csv'],
    ['/pots/1', pot, 415, 'unsupported_media_type', 'text/plain'],
    ['/pots/1', { ...pot, x: 1 }, 422, 'validation_failed'],
    ['/pots/1', { ...pot, cups: '1' }, 422, 'validation_failed'],
    ['/pots/big', pot, 422, 'validation_failed'],
    ['/pots/1e400', pot, 422, 'validation_failed'],
    ['/orders', { cups: '1' }, 422, 'validation_failed'],
    ['/orders', { cups: 1, extra: true }, 422, 'validation_failed'],
    ['/pots/1', { ...pot, name: 'crash' }, 500, 'internal_error'],
    ['/outage', {}, 503, 'unavailable'],
  ] as const) {
    const response = await post(
      url,
      payload,
      contentType === undefined ? {} : { 'content-type': contentType },
    );
    const body = response.json();
    assert.deepEqual([response.statusCode, body.status, body.code], [status, status, code], url);
    assert.match(String(response.headers['content-type']), /^application\/problem\+json/);
    assert.equal(body.request_id, response.headers['x-request-id']);
    assert.doesNotMatch(response.body, /hunter2|the database is down/);
  }
  assert.equal((await post('/orders', { cups: 1 })).statusCode, 200);
  assert.deepEqual((await post('/pots/3', pot)).json(), { size: 3 });
  assert.ok(lines.some((line) => line.includes('the password is hunter2')));
});

test('errors of plugins keep their kind, and bad input is never a 5xx', async () => {
  for (const [thrownStatus, status, code] of [
    [406, 400, 'malformed_request'],
    [413, 413, 'body_too_large'],
    [499, 400, 'malformed_request'],
    [500, 500, 'internal_error'],
    [503, 503, 'unavailable'],
    [599, 500, 'internal_error'],
  ] as const) {
    const response = await app.inject(`/fails/${thrownStatus}`);
    assert.deepEqual([response.statusCode, response.json().code], [status, code]);
  }
  const url = '/things%zz?sid=very-secret';
  const problemResponse = await app.inject(url);
  assert.equal(problemResponse.json().detail, 'The address is not well formed.');
  const page = await getPage(url);
  assert.equal(page.statusCode, 400);
  assert.match(page.body, /The address is not well formed/);
  assert.match(String(page.headers['content-security-policy']), /default-src 'none'/);
  assert.doesNotMatch(problemResponse.body + page.body, /very-secret/);
});

test('405 lists the allowed methods', async () => {
  for (const [method, url, status, allow] of [
    ['GET', '/pots/1', 405, 'POST'],
    ['HEAD', '/pots/1', 405, 'POST'],
    ['OPTIONS', '/pots/1?size=2', 405, 'POST'],
    ['POST', '/page', 405, 'GET, HEAD'],
    ['PUT', '/health/live', 405, 'GET, HEAD'],
    ['POST', '/docs/static/index.html', 405, 'GET, HEAD'],
    ['OPTIONS', '/cups', 404, undefined],
    ['POST', '/orders/', 404, undefined],
    ['GET', '/docs/static/none.js', 404, undefined],
    ['HEAD', '/page', 200, undefined],
  ] as const) {
    const response = await app.inject({ method, url });
    const actual = [response.statusCode, response.headers.allow];
    assert.deepEqual(actual, [status, allow], `${method} ${url}`);
    if (status === 405 && method !== 'HEAD')
      assert.equal(response.json().code, 'method_not_allowed');
  }
});

test('prototype keys are rejected as unknown keys', async () => {
  for (const body of ['{"name": {"__proto__": 1}}', '{"constructor": {"prototype": {}}}']) {
    assert.match((await post('/pots/1', body)).json().detail, /has a key "__proto__"/);
  }
  assert.match((await post('/pots/1', '{"__proto__": 1')).json().detail, /not valid JSON/);
});

test('JSON with invalid UTF-8 is rejected', async () => {
  const response = await post('/pots/1', Buffer.from('{"name":"\xFF","cups":1}', 'latin1'));
  assert.deepEqual(
    [response.statusCode, response.json().detail],
    [400, 'The JSON is not valid UTF-8.'],
  );
});

test('a well-formed request id is kept, and an invalid one is replaced', async () => {
  const validIdResponse = await app.inject({
    url: '/health',
    headers: { 'x-request-id': 'abc-1' },
  });
  assert.equal(validIdResponse.headers['x-request-id'], 'abc-1');
  const invalidIdResponse = await app.inject({
    url: '/health',
    headers: { 'x-request-id': 'a b\tc' },
  });
  assert.match(String(invalidIdResponse.headers['x-request-id']), /^[\da-f-]{36}$/);
});

test('browsers get a page with a link, and programs get a problem', async () => {
  assert.equal((await app.inject('/locked')).json().detail, 'Send `key`.');
  for (const [url, ...patterns] of [
    ['/nowhere?code=secret', /<h1>Not found<\/h1>/],
    [
      '/locked',
      /<p>Knock at the <code>&#60;door&#62;<\/code>\.<\/p>/,
      /<a class="button" href="\/knock">Knock<\/a>/,
    ],
    ['/locked-for-cause', /<p>The cause is <code>x<\/code>\.<\/p>/],
    ['/busy', /^(?!.*class="button")/s],
  ] as const) {
    const page = await getPage(url);
    assert.match(String(page.headers['content-type']), /^text\/html/);
    for (const pattern of patterns) assert.match(page.body, pattern);
  }
  const accept = 'text/html,*/*;q=0.8';
  const formResponse = await post('/locked', {}, { accept, 'sec-fetch-mode': 'navigate' });
  assert.equal(formResponse.statusCode, 401);
  assert.match(String(formResponse.headers['content-type']), /^text\/html/);
  const scriptResponse = await post('/locked', {}, { accept });
  assert.match(String(scriptResponse.headers['content-type']), /problem\+json/);
});

test('429 and 503 have Retry-After, and errors are not cached', async () => {
  for (const [url, retryAfter, cacheControl] of [
    ['/busy', '5', 'no-store'],
    ['/busy-for-long', '90', 'no-store'],
    ['/outage', '5', 'no-store'],
    ['/fails/429', '5', 'no-store'],
    ['/fails/500', undefined, 'no-store'],
    ['/nowhere', undefined, 'no-store'],
    ['/page', undefined, undefined],
  ] as const) {
    const { headers } = await app.inject(url);
    assert.deepEqual(
      [headers['retry-after'], headers['cache-control']],
      [retryAfter, cacheControl],
    );
  }
  assert.equal((await getPage('/busy')).headers['retry-after'], '5');
});

test('pages escape their values, allow only their style and send security headers', async () => {
  const response = await app.inject('/page');
  assert.match(response.body, /<p>&#60;script&#62;<\/p>/);
  const policy = String(response.headers['content-security-policy']);
  assert.match(policy, /default-src 'none'/);
  const style = /<style>(.*)<\/style>/s.exec(response.body)?.[1] ?? '';
  assert.ok(policy.includes(createHash('sha256').update(style).digest('base64')));
  assert.partialDeepStrictEqual(response.headers, {
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'SAMEORIGIN',
  });
});

test('the log has one line per request, without the query', async () => {
  lines.length = 0;
  await app.inject('/nowhere?code=very-secret&state=s');
  const requestLines = lines
    .map((line) => JSON.parse(line))
    .filter((line) => line.msg === 'request');
  assert.deepEqual(
    requestLines.map((line) => [line.status, typeof line.request_id]),
    [[404, 'string']],
  );
  assert.ok(!lines.join('').includes('very-secret'));
});

test('each violated rule is described once with its path', async () => {
  for (const [url, payload, ...expected] of [
    ['/rules', { choice: 'x' }, 'body/choice: must be one of own, all'],
    ['/rules', { choice: {} }, 'body/choice: must be one of own, all'],
    ['/rules', { orNull: 'x' }, 'body/orNull: must be one of own, all, null'],
    ['/rules', { numbers: 7 }, 'body/numbers: must be one of 320, 1024'],
    ['/rules', { text: 7 }, 'body/text: must be string, or must be null'],
    [
      '/rules',
      { text: 'long' },
      'body/text: must NOT have more than 2 characters, or must be null',
    ],
    ['/rules', { fixed: 'x' }, 'body/fixed: must be true'],
    ['/rules', { listed: 'e' }, 'body/listed: must be one of q, w'],
    ['/rules', { deep: 1 }, 'body/deep: must be object'],
    [
      '/rules',
      { deep: { a: 1 } },
      'body/deep/a: must be string, or must be boolean',
      'body/deep: must match a schema in anyOf',
    ],
    [
      '/rules',
      { list: ['own', 'x', 'all', 'y'] },
      'body/list/1: must be one of own, all',
      'body/list/3: must be one of own, all',
    ],
    ['/rules', { count: 0.5 }, 'body/count: must be integer', 'body/count: must be >= 1'],
    [
      '/pots/1',
      { name: 5, extra: true },
      'body/name: must be string',
      'body: must NOT have additional properties: "extra" is unknown',
      "body: must have required property 'cups'",
    ],
  ] as const) {
    const { errors } = (await post(url, payload)).json();
    const actual = errors.map(
      (error: Record<string, string>) => `${error['path']}: ${error['message']}`,
    );
    assert.deepEqual(actual.toSorted(), [...expected].toSorted());
  }
});

test('a huge or deep request is validated, and the number of errors is limited', async () => {
  const countErrors = async (payload: object) =>
    (await post('/phones', payload)).json().errors.length;
  const phones = Array.from({ length: 300_000 }, () => ({}));
  const unknownKeys = Object.fromEntries(
    Array.from({ length: 50_000 }, (_, index) => [`k${index}`, index]),
  );
  let nestedValue: object = {};
  for (let depth = 0; depth < 4000; depth += 1) nestedValue = { more: nestedValue };
  for (const payload of [
    { phones },
    unknownKeys,
    { name: {}, more: phones },
    { name: {}, more: nestedValue },
  ]) {
    assert.equal(await countErrors(payload), 1);
  }
  const payload = { name: {}, phones: [{}, ...Array<string>(20).fill('1'), {}], unknown: 1 };
  assert.equal(await countErrors(payload), 5);
  assert.equal((await app.inject('/many')).json().errors.length, 50);
  assert.equal((await getPage('/many')).body.match(/<li>/g)?.length, 50);
});

test('health is 200 while degraded, 503 when down', async () => {
  for (const [status, code] of [
    ['ok', 200],
    ['degraded', 200],
    ['down', 503],
  ] as const) {
    databaseStatus = status;
    const response = await app.inject('/health');
    assert.equal(response.statusCode, code);
    assert.deepEqual(response.json(), { status, checks: { database: { status } } });
  }
  assert.equal((await app.inject('/health/live')).statusCode, 200);
  assert.equal((await app.inject('/health/ready')).statusCode, 503);
});

test('metrics count requests by route, and need their token', async () => {
  const { body } = await app.inject('/metrics');
  const route = String.raw`method="POST",route="/pots/:size",status="422"`;
  assert.ok(body.includes(`http_request_duration_seconds_count{${route}}`));
  assert.match(body, /process_resident_memory_bytes/);
  const guardedApp = await serve();
  registerHttpMetrics(guardedApp, new Registry(), { token: 'a-token-of-metrics' });
  for (const [authorization, status] of [
    [undefined, 401],
    ['', 401],
    ['Bearer', 401],
    ['Bearer a-token-of-metric', 401],
    ['Bearer a-token-of-metrics2', 401],
    ['Basic a-token-of-metrics', 401],
    ['a-token-of-metrics', 401],
    ['Bearer a-token-of-metrics', 200],
    ['bearer a-token-of-metrics', 200],
  ] as const) {
    const headers = authorization === undefined ? {} : { authorization };
    const response = await guardedApp.inject({ url: '/metrics', headers });
    assert.equal(response.statusCode, status, authorization);
    if (status === 200) continue;
    assert.equal(response.json().code, 'metrics_token_needed');
    assert.equal(response.headers['www-authenticate'], 'Bearer');
  }
});

test('the OpenAPI document describes the routes and the problem', async () => {
  const document = (await app.inject('/openapi.json')).json();
  assert.ok(document.components.schemas.Problem.properties.request_id);
  const { responses } = document.paths['/pots/{size}'].post;
  assert.deepEqual(Object.keys(responses), ['200', '409', '422', '500']);
  assert.equal(responses['409'].description, 'Tea only; No milk');
  const { examples } = responses['409'].content['application/problem+json'];
  assert.deepEqual(Object.keys(examples), ['tea_only', 'no_milk']);
  assert.equal(examples.no_milk.$ref, '#/components/examples/no_milk');
  assert.partialDeepStrictEqual(document.components.examples.no_milk.value, {
    type: 'urn:oselya:error:no_milk',
    title: 'No milk',
    status: 409,
    detail: 'Take it as it is.',
    code: 'no_milk',
  });
  assert.equal(document.components.securitySchemes.key.scheme, 'bearer');
  assert.deepEqual(document.tags, [{ name: 'operations', description: 'For operators.' }]);
  assert.ok([200, 302].includes((await app.inject('/docs')).statusCode));
  const listResponses = document.paths['/list'].get.responses;
  const errorContentTypes = ['application/problem+json', 'text/html'];
  assert.deepEqual(Object.keys(listResponses['422'].content), errorContentTypes);
  assert.deepEqual(Object.keys(listResponses['200'].content), ['application/json']);
  assert.deepEqual(Object.keys(responses['422'].content), ['application/problem+json']);
});

const healthLines: string[] = [];

async function serveHealth(checks: HealthChecks) {
  const server = await serve({ lines: healthLines, level: 'warn' });
  registerHealthRoutes(server, checks);
  return server;
}

test('a failed check is down, and its reason is only logged', async () => {
  const errors = {
    rejects: new Error('password of 10.0.0.7 refused'),
    refused: Object.assign(
      new Error('away', {
        cause: Object.assign(new Error('connect 10.0.0.7:5432'), { code: 'ECONNREFUSED' }),
      }),
      { code: 'DATABASE_UNREACHABLE' },
    ),
    talks: Object.assign(new Error('no'), { code: 'user olena is unknown' }),
  };
  const server = await serveHealth({
    rejects: () => Promise.reject(errors.rejects),
    refused() {
      throw errors.refused;
    },
    talks() {
      throw errors.talks;
    },
  });
  const response = await server.inject('/health');
  assert.deepEqual([response.statusCode, response.headers['retry-after']], [503, '5']);
  assert.deepEqual(response.json().checks, {
    rejects: { status: 'down', detail: 'The check failed; see the log.' },
    refused: { status: 'down', detail: 'The check failed (ECONNREFUSED); see the log.' },
    talks: { status: 'down', detail: 'The check failed; see the log.' },
  });
  const logLines = healthLines.map((line) => JSON.parse(line));
  for (const [name, { message }] of Object.entries(errors)) {
    assert.ok(logLines.some((line) => line.check === name && line.err.message === message));
  }
});

test('a hanging check is aborted, and decides its status or is down', async () => {
  const checkAborted = Promise.withResolvers<void>();
  const silentServer = await startServer(() => 'silence');
  const server = await serveHealth({
    silent: (signal) => {
      signal.addEventListener('abort', () => checkAborted.resolve());
      return new Promise(() => undefined);
    },
    async peer(signal) {
      const response = await fetch(silentServer.url, { signal }).catch(() => undefined);
      return { status: response === undefined ? 'degraded' : 'ok' };
    },
  });
  const { checks } = (await server.inject('/health')).json();
  await checkAborted.promise;
  assert.deepEqual(checks.silent, {
    status: 'down',
    detail: 'The check did not respond within 3 s.',
  });
  assert.deepEqual(checks.peer, { status: 'degraded' });
});
