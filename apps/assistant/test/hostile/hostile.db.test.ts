import assert from 'node:assert/strict';
import { METHODS } from 'node:http';
import { test } from 'node:test';
import { getRepetitions, startServer } from '@oselya/testing';
import type { InjectOptions } from 'fastify';
import fc from 'fast-check';
import { errors } from '../../src/errors.ts';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { createPerson } from '../helpers/people.ts';
import {
  createBody,
  headers,
  headerValue,
  id,
  encodeInUrl,
  MARK,
  markedText,
  redirectQuery,
  text,
} from './generators.ts';

const WEBHOOK_SECRET = 'webhook secret, with: odd/characters';
const USER = 'u-hostile';
const ADMIN = 'u-hostile-admin';

/** Pattern of redirect targets within the assistant. */
const LOCAL_TARGET =
  /^(\/|\/auth\/mobile-done\?sid=[\w-]{43}|\/docs\/(static\/)?index\.html|\/docs\/)$/;

type Operation = {
  parameters?: { in: string; name: string }[];
  requestBody?: { content: Record<string, { schema?: object }> };
  responses: Record<string, unknown>;
};

/** Share of the full run, which has about 10,000 requests. */
const RUN_SCALE = getRepetitions({ soak: 1, ci: 0.1 });

const collector = await startServer(({ method, path }) => {
  if (path.includes('/search/')) {
    return { body: { items: [], total: { value: 0, relation: 'eq' }, took_ms: 1 } };
  }
  const isCreation = method === 'POST' && path.split('?')[0]?.endsWith('/api-keys') === true;
  return { status: isCreation ? 201 : 200, body: {} };
});

const { provider, lines, settings, signInUser, findAuthSession, db, createInstance } =
  await openAssistant({
    IDP_WEBHOOK_SECRET: WEBHOOK_SECRET,
    IDP_USER_MAX_AGE_SECONDS: '3600',
    LOGIN_PER_MINUTE: '0',
    COLLECTOR_URL: collector.url,
  });
const app = await createInstance();
const browsers = new Map<string, Browser>();

/** Fails if content contains a secret. */
function checkSecrets(content: string, requestText: string): void {
  for (const secret of [
    WEBHOOK_SECRET,
    provider.client.secret,
    settings()['SVC_AUTH_ENCRYPTION_KEY'] ?? '',
    ...[...browsers.values()].map(({ sid }) => sid),
    ...provider.issued,
  ]) {
    assert.ok(!content.includes(secret), `${requestText} reveals ${secret}: ${content}`);
  }
}

function isAllowedTarget(location: string): boolean {
  if (LOCAL_TARGET.test(location)) return true;
  if (!location.startsWith(`${provider.url}/oauth/authorize?`)) return false;
  const { searchParams, hash } = new URL(location);
  return (
    searchParams.get('redirect_uri') === 'http://assistant.test/auth/callback' &&
    searchParams.get('return_to') === '/' &&
    hash === ''
  );
}

/** Sends a request and checks that the answer is a success, a problem or a page. */
async function sendRequest(request: {
  method?: string;
  url: string;
  headers?: Record<string, string>;
  payload?: Buffer;
}) {
  // The types of `inject` allow only the common methods, but some cases use others.
  const response = await app.inject(request as InjectOptions);
  const { statusCode, body } = response;
  const requestText = `${request.method ?? 'GET'} ${request.url}: ${statusCode} ${body.slice(0, 500)}`;
  assert.ok(statusCode < 500, requestText);
  checkSecrets(body, requestText);
  const { location, 'content-type': type } = response.headers;
  if (location !== undefined) assert.ok(isAllowedTarget(location), requestText);
  if (statusCode < 400 || request.method === 'HEAD') return response;
  if (String(type).startsWith('text/html')) assert.match(body, /^<!doctype html>/i, requestText);
  else {
    assert.match(String(type), /^application\/problem\+json/, requestText);
    const problem = JSON.parse(body);
    assert.equal(problem.status, statusCode, requestText);
    assert.ok(Object.hasOwn(errors, problem.code), requestText);
  }
  return response;
}

/** Tests a property with generated cases. Checks the log after each case. */
function testCases<Value>(
  name: string,
  count: number,
  values: fc.Arbitrary<Value>,
  checkCase: (value: Value) => Promise<void>,
): void {
  test(name, async () => {
    lines.length = 0;
    const property = fc.asyncProperty(values, async (value) => {
      await checkCase(value);
      for (const line of lines.splice(0)) {
        checkSecrets(line, 'the log');
        assert.ok(!line.includes(MARK), `the log has a value of a request: ${line}`);
        assert.doesNotMatch(line, /"level":"(error|fatal)"/);
      }
    });
    await fc.assert(property, { numRuns: Math.ceil(count * RUN_SCALE) });
  });
}

/** Returns a user's session cookie. Signs the user in again if an earlier request ended the session. */
async function getCookie(userId: string): Promise<string> {
  let browser = browsers.get(userId);
  if (browser === undefined || (await findAuthSession(browser.sid)) === undefined) {
    const permissions = ['svc.profiles.use'] as const;
    const user = createPerson(userId, { isAdmin: userId === ADMIN, permissions: [...permissions] });
    browser = await signInUser(app, user);
    browsers.set(userId, browser);
  }
  return `svc_auth_session=${browser.sid}`;
}

await db
  .insertInto('conversation_sessions')
  .values([
    { id: 'c-own', user_id: USER, profile_id: 'default', name: `name ${MARK}` },
    { id: 'c-other', user_id: 'u-1', profile_id: 'default', name: `name ${MARK}` },
    { id: 'c-legacy', user_id: null, profile_id: null, name: null },
    { id: 'c-files', user_id: 'u-files', profile_id: 'default', name: 'files' },
  ])
  .execute();

const document: { paths: Record<string, Record<string, Operation>> } = JSON.parse(
  JSON.stringify(app.swagger()),
);
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
);
const urlSegment = fc.oneof(
  fc.constantFrom('c-own', 'c-other', 'c-legacy', USER, ADMIN, 'default', 'notes.txt', 'home'),
  encodeInUrl(markedText),
  id,
);
const queryValue = fc.oneof(
  encodeInUrl(markedText),
  fc.constantFrom('1', '0', '-1', '1e400', 'all', '2026-01-01T00:00:00Z', USER),
  fc.jsonValue().map((value) => Buffer.from(JSON.stringify(value)).toString('base64url')),
);

testCases(
  'every route responds with a documented status',
  4000,
  fc.constantFrom(...operations).chain((operation) => {
    const parameters = (operation.parameters ?? []).filter((parameter) => parameter.in === 'query');
    const name = fc.constantFrom(
      ...parameters.map((parameter) => parameter.name),
      'limit',
      'cursor',
      MARK,
    );
    const content = Object.entries(operation.requestBody?.content ?? {});
    const [type = 'application/json', media] = content[0] ?? [];
    return fc.record({
      operation: fc.constant(operation),
      segments: fc.array(urlSegment, { minLength: 3, maxLength: 3 }),
      query: fc.array(fc.tuple(name, queryValue), { maxLength: 4 }),
      sentHeaders: fc.oneof(fc.constant({}), headers),
      type: fc.constantFrom(type, type, type, 'text/plain', ''),
      body: fc.option(createBody(media?.schema ?? {}), { freq: media === undefined ? 2 : 8 }),
      userId: fc.constantFrom(undefined, USER, ADMIN),
    });
  }),
  async ({ operation, segments, query, sentHeaders, type, body, userId }) => {
    const { path, method, responses } = operation;
    const unusedSegments = [...segments];
    const address = path.replaceAll(/\{\w+\}/g, () => unusedSegments.pop() ?? '');
    const { statusCode } = await sendRequest({
      method: method.toUpperCase(),
      url: `${address}?${query.map((pair) => pair.join('=')).join('&')}`,
      headers: {
        ...(type !== '' && body !== null && { 'content-type': type }),
        ...sentHeaders,
        ...(userId !== undefined && { cookie: await getCookie(userId) }),
      },
      ...(body !== null && { payload: body }),
    });
    // A generated segment may be malformed, or lead to another route.
    const guardStatuses =
      URL.canParse(address, 'http://localhost') && isDecodable(address) ? ['404', '405'] : ['400'];
    const isDocumented = [...Object.keys(responses), ...guardStatuses].includes(String(statusCode));
    assert.ok(
      isDocumented,
      `${method} ${path} responds with ${statusCode}, which is not documented`,
    );
  },
);

testCases(
  'an unknown address is a problem, for each method and user',
  900,
  fc.record({
    method: fc.constantFrom(...METHODS.filter((name) => name !== 'CONNECT')),
    segments: fc.array(fc.oneof(urlSegment, fc.constantFrom('auth', 'admin', 'docs', '..', '')), {
      maxLength: 5,
    }),
    sentHeaders: headers,
    userId: fc.constantFrom(undefined, USER, ADMIN),
  }),
  async ({ method, segments, sentHeaders, userId }) => {
    const address = `/${segments.join('/')}`;
    if (!URL.canParse(address, 'http://localhost')) return;
    const cookie = userId === undefined ? '' : await getCookie(userId);
    await sendRequest({ method, url: address, headers: { ...sentHeaders, cookie } });
  },
);

const parameter = fc.tuple(
  fc.constantFrom('code', 'state', 'error', 'iss', 'error_description'),
  encodeInUrl(markedText),
);
testCases(
  'a login redirects only to the provider, and a callback without a login is rejected',
  1250,
  fc.record({ parameters: fc.array(parameter), query: redirectQuery, sentHeaders: headers }),
  async ({ parameters, query, sentHeaders }) => {
    const login = await sendRequest({ url: `/auth/login?${query}`, headers: sentHeaders });
    if (login.statusCode === 302) {
      assert.ok(String(login.headers.location).startsWith(`${provider.url}/oauth/authorize?`));
    } else assert.equal(login.statusCode, 400);
    const parameterTexts = parameters.map((pair) => pair.join('='));
    const target = `/auth/callback?${[...parameterTexts, query].join('&')}`;
    const callback = await sendRequest({ url: target, headers: sentHeaders });
    assert.deepEqual([callback.statusCode, callback.cookies], [400, []]);
  },
);

const cookie = fc.tuple(
  fc.constantFrom('svc_auth_session', '__Host-svc_auth_session', '__proto__', ''),
  fc.constantFrom('=', '', '=='),
  fc.oneof(
    id,
    headerValue.map((value) => value + MARK),
  ),
);
const cookies = fc
  .tuple(fc.array(cookie, { maxLength: 8 }), fc.constantFrom('; ', ',', ';;'))
  .map(([pairs, separator]) => pairs.map((parts) => parts.join('')).join(separator));
testCases(
  'an unknown cookie is signed out',
  1500,
  fc.record({
    cookie: cookies,
    url: fc.constantFrom('/auth/me', '/sessions', '/admin/users'),
    sentHeaders: headers,
  }),
  async ({ cookie: value, url: path, sentHeaders }) => {
    const response = await sendRequest({ url: path, headers: { ...sentHeaders, cookie: value } });
    assert.equal(response.statusCode, 401);
  },
);

const wrongSignature = fc.record(
  {
    'x-webhook-signature': headerValue.map((value) => value + MARK),
    'webhook-id': headerValue,
    'webhook-timestamp': fc.oneof(fc.nat().map(String), headerValue),
    'webhook-signature': headerValue.map((value) => `v1,${value}${MARK}`),
  },
  { requiredKeys: [] },
);
const event = { type: 'object', properties: { event: { enum: ['user.blocked'] } } };
testCases(
  'a webhook with a wrong signature is rejected without effect',
  700,
  fc.record({ payload: createBody(event), signature: wrongSignature, sentHeaders: headers }),
  async ({ payload, signature, sentHeaders }) => {
    const { statusCode } = await sendRequest({
      method: 'POST',
      url: '/webhooks/idp',
      headers: { 'content-type': 'application/json', ...sentHeaders, ...signature },
      payload,
    });
    // An unreadable content type is rejected before the signature.
    assert.ok([400, 415].includes(statusCode), String(statusCode));
    const ledger = await db.selectFrom('webhook_events').select('id').execute();
    assert.deepEqual(ledger, []);
  },
);

const fileName = fc.constantFrom(
  'план квартири.pdf',
  'CON',
  '..',
  'a.txt.',
  'a"b.txt',
  'a;filename=evil.html',
  'a\r\nset-cookie: b=c',
  'gpj.\u202eexe',
  'e\u0301.txt',
);
testCases(
  'a stored file has a safe name and is downloaded unchanged',
  400,
  fc.record({
    name: encodeInUrl(fc.oneof(fileName, text)),
    content: fc.uint8Array({ maxLength: 200 }),
    type: fc.constantFrom('text/html', 'application/octet-stream', 'image/svg+xml; a=b'),
  }),
  async ({ name, content, type }) => {
    const ownerHeaders = { cookie: await getCookie('u-files') };
    const file = { url: `/sessions/c-files/files/${name}`, headers: ownerHeaders };
    const payload = Buffer.concat([content, Buffer.from(MARK)]);
    const upload = { ...ownerHeaders, 'content-type': type };
    const uploadResponse = await sendRequest({ ...file, method: 'PUT', headers: upload, payload });
    if (![200, 201].includes(uploadResponse.statusCode)) {
      return assert.ok([400, 404, 422].includes(uploadResponse.statusCode), uploadResponse.body);
    }
    assert.doesNotMatch(uploadResponse.json().name, /[/\\\p{Cc}]|^[.\s]|[.\s]$/u);
    const download = await sendRequest(file);
    assert.deepEqual(download.rawPayload, payload);
    assert.doesNotMatch(String(download.headers['content-type']), /html|xml|javascript/);
    const disposition = String(download.headers['content-disposition']);
    assert.match(disposition, /^attachment; filename[=*][\t\x20-\x7e\x80-\xff]+$/);
    assert.equal((await sendRequest({ ...file, method: 'DELETE' })).statusCode, 200);
  },
);

function isDecodable(address: string): boolean {
  try {
    decodeURIComponent(address);
    return true;
  } catch {
    return false;
  }
}
