import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { type ScriptedResponse, startServer } from '@oselya/testing';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { createDocumentChecker } from '../helpers/openapi.ts';
import { createPerson, SEVERAL_PEOPLE, signInUsers } from '../helpers/people.ts';
import { SECRET, send as sendEvent } from '../webhooks/signing.ts';

const IMAGE = { sha256: 'a'.repeat(64), width: 1200, height: 800 };
const OTHER_IMAGE = { sha256: 'b'.repeat(64), width: 900, height: 600 };
const IMAGE_BYTES = Buffer.from('image bytes');

/** Listing whose source wrote attributes that resemble an image. */
const LISTING = {
  listing_id: 7,
  title: 'Біля парку',
  cover: IMAGE,
  attributes: { sha256: IMAGE.sha256, cover: IMAGE },
};
const DUPLICATES = [{ listing_id: 9, score: 0.9 }];
const HITS = { items: [{ listing: LISTING }, { listing: { ...LISTING, cover: null } }] };

const LIMIT_HEADERS = {
  'ratelimit-limit': '120',
  'ratelimit-remaining': '119',
  'ratelimit-reset': '60',
};

let failure: ScriptedResponse | undefined;

const collector = await startServer(({ method, path }) => {
  if (failure !== undefined) return failure;
  if (method === 'POST') return { body: HITS, headers: LIMIT_HEADERS };
  if (path.startsWith('/api/v1/images/')) {
    const headers = { 'content-type': 'image/jpeg', 'content-length': String(IMAGE_BYTES.length) };
    return { write: (response) => response.writeHead(200, headers).end(IMAGE_BYTES) };
  }
  if (path === '/api/v1/listings/7/images?limit=2') {
    const link = '</api/v1/listings/7/images?limit=2&cursor=Mg>; rel="next"';
    return { headers: { link }, body: [IMAGE, OTHER_IMAGE, { sha256: null, error: 'too large' }] };
  }
  if (/\/(history|prices)/.test(path)) return { body: [] };
  return { body: { ...LISTING, duplicates: DUPLICATES } };
});

const assistant = await openAssistant({
  ...SEVERAL_PEOPLE,
  COLLECTOR_URL: collector.url,
  COLLECTOR_API_KEY: 'key-of-the-assistant',
  IDP_WEBHOOK_SECRET: SECRET,
});
const { provider } = assistant;
const app = await assistant.createInstance();
const { owner, stranger, holder, admin } = await signInUsers(assistant, app, ['svc.tools.use']);
const { checkResponse } = createDocumentChecker((await app.inject('/openapi.json')).json());

const ROUTES = [
  ['POST', '/listings/search', '/listings/search', { query: 'парк' }],
  ['POST', '/listings/batch', '/listings/batch', { ids: [7, 9], currency: 'USD' }],
  ['GET', '/listings/:id', '/listings/7?currency=USD', undefined],
  ['GET', '/listings/:id/:part', '/listings/7/images?limit=2', undefined],
] as const;

const send = (browser: Browser, [method, , url, payload]: (typeof ROUTES)[number]) =>
  browser.request(method, url, payload && { payload });

/** Sends a request, and returns the requests that the collector received meanwhile. */
async function listForwarded(sendRequest: () => Promise<unknown>) {
  collector.requests.length = 0;
  await sendRequest();
  return collector.requests.map(({ method, path, body }) => ({ method, path, body }));
}

test('Requests are passed on with the key of the assistant, each for its user', async () => {
  const batchBody = { ids: [7, 9], currency: 'USD', include_archived: true };
  for (const [url, payload, path, body] of [
    ['/listings/search', { query: 'парк' }, '/search/hybrid', { query: 'парк' }],
    ['/listings/search', { mode: 'words', query: 'а' }, '/search/fulltext', { query: 'а' }],
    ['/listings/search', { mode: 'meaning', listing_id: 7 }, '/search/similar', { listing_id: 7 }],
    ...['browse', 'facets', 'points'].map((kind) => {
      const filters = { city: ['Львів'] };
      return [`/listings/${kind}`, filters, `/search/${kind}`, filters] as const;
    }),
    [
      '/listings/suggest?q=%D0%9B&limit=3',
      undefined,
      '/search/suggest?q=%D0%9B&limit=3',
      undefined,
    ],
    ['/listings/batch', { ids: [7, 9], currency: 'USD' }, '/search/matches', batchBody],
    ['/listings/7?currency=USD', undefined, '/listings/7?currency=USD', undefined],
    [
      '/listings/7/history?limit=5&cursor=MQ',
      undefined,
      '/listings/7/history?limit=5&cursor=MQ',
      undefined,
    ],
    ['/listings/7/prices', undefined, '/listings/7/prices', undefined],
    ['/listings/7/duplicates', undefined, '/listings/7', undefined],
  ] as const) {
    const method = payload === undefined ? 'GET' : 'POST';
    const forwarded = await listForwarded(async () => {
      const response = await holder.request(method, url, payload && { payload });
      assert.equal(response.statusCode, 200, response.body);
      assert.equal(response.headers['cache-control'], 'no-store');
      const limit = response.headers['ratelimit-limit'];
      assert.equal(limit, method === 'POST' ? '120' : undefined);
      if (url.endsWith('duplicates')) assert.deepEqual(response.json(), DUPLICATES);
    });
    assert.deepEqual(forwarded, [{ method, path: `/api/v1${path}`, body }]);
    const { authorization, 'x-on-behalf-of': user } = collector.requests[0]?.headers ?? {};
    assert.equal(authorization, 'Bearer key-of-the-assistant');
    assert.equal(user, createHash('sha256').update('u-holder').digest('base64url'));
  }
});

test('Listings need svc.tools.use, which an admin always has, and a session', async () => {
  const visitors = { owner: 403, stranger: 403, holder: 200, admin: 200 };
  const leaver = await assistant.signInUser(
    app,
    createPerson('u-leaver', { permissions: ['svc.tools.use'] }),
  );
  assert.equal((await send(leaver, ROUTES[2])).statusCode, 200);
  await sendEvent(app, { event: 'user.blocked', user_id: 'u-leaver' });
  for (const route of ROUTES) {
    for (const [name, browser] of Object.entries({ owner, stranger, holder, admin, leaver })) {
      const status = name === 'leaver' ? 401 : visitors[name as keyof typeof visitors];
      const forwarded = await listForwarded(async () => {
        const response = await send(browser, route);
        assert.equal(response.statusCode, status, `${name} at ${route[2]}: ${response.body}`);
        checkResponse(route[0], route[1], response);
      });
      assert.equal(forwarded.length, status === 200 ? 1 : 0);
    }
  }
});

test('Invalid requests are rejected without a request to the collector', async () => {
  for (const [url, payload, path] of [
    ['/listings/search', { mode: 'everything' }, 'body/mode'],
    ['/listings/browse', '[]', 'body'],
    ['/listings/suggest?q=', undefined, 'querystring/q'],
    ['/listings/batch', { ids: [] }, 'body/ids'],
    ['/listings/batch', { ids: [7, 7] }, 'body/ids'],
    ['/listings/batch', { ids: [0] }, 'body/ids/0'],
    ['/listings/batch', { ids: Array.from({ length: 101 }, (_, index) => index + 1) }, 'body/ids'],
    ['/listings/batch', { ids: [7], currency: 'hryvnia' }, 'body/currency'],
    ['/listings/batch', { ids: [7], query: 'парк' }, 'body'],
    ['/listings/0', undefined, 'params/id'],
    ['/listings/1e2', undefined, 'params/id'],
    ['/listings/..%2Fadmin%2Fqueue', undefined, 'params/id'],
    ['/listings/7/everything', undefined, 'params/part'],
    ['/listings/7/images?limit=1001', undefined, 'querystring/limit'],
  ] as const) {
    const forwarded = await listForwarded(async () => {
      const headers = { 'content-type': 'application/json' };
      const response = await (payload === undefined
        ? holder.get(url)
        : holder.post(url, { payload, headers }));
      assert.equal(response.statusCode, 422, response.body);
      assert.deepEqual(
        response.json().errors.map((error: { path: string }) => error.path),
        [path],
      );
    });
    assert.deepEqual(forwarded, []);
  }
});

const createFailure = (status: number, code: string, headers = {}): ScriptedResponse => ({
  status,
  headers: { 'content-type': 'application/problem+json', ...headers },
  body: {
    type: `urn:oselya:error:${code}`,
    title: 'Title of the collector',
    status,
    detail: 'Detail of the collector.',
    code,
    request_id: 'request-of-the-collector',
    ...(status === 422 && {
      errors: [{ path: 'body/price_min', message: 'must be <= price_max' }],
    }),
  },
});

test('Problems of the collector are passed on if the user can act on them, otherwise it is unavailable', async (t) => {
  t.after(() => {
    failure = undefined;
  });
  for (const [scriptedFailure, status, code] of [
    [createFailure(404, 'listing_not_found'), 404, 'listing_not_found'],
    [createFailure(409, 'listing_not_embedded'), 409, 'listing_not_embedded'],
    [createFailure(422, 'validation_failed'), 422, 'validation_failed'],
    [createFailure(429, 'rate_limited', { 'retry-after': '42' }), 429, 'rate_limited'],
    [createFailure(502, 'model_failed'), 502, 'model_failed'],
    [createFailure(503, 'unavailable', { 'retry-after': '42' }), 503, 'unavailable'],
    [createFailure(401, 'unauthorized'), 503, 'collector_unavailable'],
    [createFailure(403, 'forbidden'), 503, 'collector_unavailable'],
    [createFailure(500, 'internal_error'), 503, 'collector_unavailable'],
    [{ status: 502, body: '<html>' }, 503, 'collector_unavailable'],
    [{ status: 404, body: {} }, 503, 'collector_unavailable'],
    [{ status: 200, body: '<html>' }, 503, 'collector_unavailable'],
    [{ status: 302, headers: { location: '/' } }, 503, 'collector_unavailable'],
    ['reset', 503, 'collector_unavailable'],
    ['cut', 503, 'collector_unavailable'],
  ] as const) {
    failure = scriptedFailure;
    const response = await send(holder, ROUTES[0]);
    assert.equal(response.statusCode, status, response.body);
    checkResponse('POST', '/listings/search', response);
    const problem = response.json();
    assert.deepEqual([problem.code, problem.status], [code, status]);
    assert.equal(problem.request_id, response.headers['x-request-id']);
    if (code !== 'collector_unavailable') assert.equal(problem.detail, 'Detail of the collector.');
    if (status === 422) assert.equal(problem.errors[0].path, 'body/price_min');
    if (status === 429) assert.equal(response.headers['retry-after'], '42');
    if (status === 503) assert.ok(Number(response.headers['retry-after']) > 0);
  }
  failure = 'reset';
  for (const [, , url] of ROUTES.slice(2)) assert.equal((await holder.get(url)).statusCode, 503);
});

type Image = typeof IMAGE & { links: { small: string; large: string; original: string } };

test('Covers and images have links, and texts of sources have none', async () => {
  const hits = (await send(holder, ROUTES[0])).json();
  assert.deepEqual(hits.items[1], HITS.items[1]);
  const { cover, ...listing } = hits.items[0].listing;
  assert.deepEqual({ ...listing, cover: IMAGE }, LISTING);
  const response = await holder.get('/listings/7/images?limit=2');
  assert.equal(response.headers.link, '</listings/7/images?limit=2&cursor=Mg>; rel="next"');
  const [image, otherImage, rejectedImage] = response.json();
  assert.deepEqual(rejectedImage, { sha256: null, error: 'too large' });
  assert.deepEqual(image, cover);
  assert.deepEqual((await holder.get('/listings/7')).json().cover, cover);
  const links: string[] = [image, otherImage].flatMap(
    ({ links: { small, large, original } }: Image) => [small, large, original],
  );
  assert.equal(new Set(links).size, 6);
  for (const [index, size] of ['320', '1024', null].entries()) {
    const url = new URL(links[index] ?? '', 'http://assistant.test');
    assert.deepEqual(
      [url.pathname, url.searchParams.get('size')],
      [`/images/${IMAGE.sha256}`, size],
    );
    assert.equal(Number(url.searchParams.get('expires')) % 3600, 0);
  }
});

const readImage = async (browser: Browser): Promise<Image> =>
  (await browser.get('/listings/7/images?limit=2')).json()[0];

const getStatus = async (browser: Browser, url: string) => {
  const response = await browser.get(url);
  checkResponse('GET', '/images/:sha256', response);
  if (response.statusCode === 403) assert.equal(response.json().code, 'image_link_not_valid');
  return response.statusCode;
};

test('A link returns the image to its user without a request to the identity provider', async () => {
  const { links } = await readImage(holder);
  provider.calls.length = 0;
  for (const [url, query] of [
    [links.small, '?size=320'],
    [links.large, '?size=1024'],
    [links.original, ''],
  ] as const) {
    const forwarded = await listForwarded(async () => {
      const response = await holder.get(url);
      assert.deepEqual([response.statusCode, response.rawPayload], [200, IMAGE_BYTES]);
      assert.equal(response.headers['content-type'], 'image/jpeg');
      assert.equal(response.headers['x-content-type-options'], 'nosniff');
      const maxAge = /^private, max-age=(\d+), immutable$/.exec(
        String(response.headers['cache-control']),
      )?.[1];
      assert.ok(Number(maxAge) > 3590 && Number(maxAge) <= 7200, maxAge);
      checkResponse('GET', '/images/:sha256', response);
    });
    const path = `/api/v1/images/${IMAGE.sha256}${query}`;
    assert.deepEqual(forwarded, [{ method: 'GET', path, body: undefined }]);
  }
  assert.deepEqual(provider.calls, []);
});

test('A link is rejected for other users, after its expiry, if it is forged, and after a change of access', async (t) => {
  const person = createPerson('u-reader', { permissions: ['svc.tools.use'] });
  const reader = await assistant.signInUser(app, person);
  const { links } = await readImage(reader);
  assert.equal(await getStatus(reader, links.small), 200);
  assert.equal((await app.inject(links.small)).statusCode, 401);
  const query = links.small.split('?')[1] ?? '';
  const forgedUrls = [
    links.small.replace('size=320', 'size=1024'),
    links.small.replace('size=320&', ''),
    links.small.replace('user=u-reader', 'user=u-holder'),
    links.small.replace(/expires=(\d+)/, (_, expires) => `expires=${Number(expires) + 3600}`),
    links.small.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')),
    links.small.replace(/&signature=.*/, ''),
    `/images/${OTHER_IMAGE.sha256}?${query}`,
    `/images/..%2F..%2Flistings%2F7?${query}`,
  ];
  const forwarded = await listForwarded(async () => {
    for (const browser of [holder, owner, admin]) {
      assert.equal(await getStatus(browser, links.small), 403);
    }
    for (const url of forgedUrls) assert.equal(await getStatus(reader, url), 403, url);
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 2 * 3600 * 1000 });
    assert.equal(await getStatus(reader, links.small), 403);
    t.mock.timers.reset();
    await sendEvent(app, { event: 'client.roles_changed', user_id: 'u-reader' });
    assert.equal(await getStatus(reader, links.small), 403);
  });
  assert.deepEqual(forwarded, []);
  provider.user = person;
  const { links: newLinks } = await readImage(reader);
  assert.equal(await getStatus(reader, newLinks.small), 200);
  await sendEvent(app, { event: 'user.blocked', user_id: 'u-reader' });
  assert.equal(await getStatus(reader, newLinks.small), 401);
});

test('A missing image is 404, and an outage 503', async (t) => {
  t.after(() => {
    failure = undefined;
  });
  const { links } = await readImage(holder);
  failure = createFailure(404, 'image_not_found');
  assert.equal((await holder.get(links.small)).json().code, 'image_not_found');
  failure = 'reset';
  assert.equal(await getStatus(holder, links.small), 503);
});
