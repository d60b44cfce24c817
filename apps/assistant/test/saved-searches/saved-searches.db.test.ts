import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Permission } from '../../src/access/permissions.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { createDocumentChecker } from '../helpers/openapi.ts';
import { pages, createPerson, SEVERAL_PEOPLE } from '../helpers/people.ts';

const assistant = await openAssistant(SEVERAL_PEOPLE);
const { db } = assistant;
const app = await assistant.createInstance();
const signIn = (id: string, ...permissions: Permission[]) =>
  assistant.signInUser(app, createPerson(id, { permissions }));
const olena = await signIn('u-olena', 'svc.tools.use', 'svc.profiles.use');
const taras = await signIn('u-taras', 'svc.tools.use', 'svc.profiles.use');
const toolUser = await signIn('u-tools', 'svc.tools.use');
const admin = await assistant.signInUser(app, createPerson('u-admin', { isAdmin: true }));
const { checkResponse } = createDocumentChecker((await app.inject('/openapi.json')).json());

const BODY = { name: 'Біля парку', search: { query: 'парк', city: 'Львів', price_max: 15_000 } };

async function saveSearch(browser: typeof olena, changes: object = {}) {
  const response = await browser.post('/saved-searches', { payload: { ...BODY, ...changes } });
  checkResponse('POST', '/saved-searches', response);
  return response;
}

const changeSearch = (browser: typeof olena, id: string, payload: object) =>
  browser.request('PATCH', `/saved-searches/${id}`, { payload });

const createSession = (userId: string, name = '') =>
  db
    .insertInto('conversation_sessions')
    .values({ user_id: userId, profile_id: 'default', name })
    .returning('id')
    .executeTakeFirstOrThrow();

test('A search is saved with a session of its name, read, changed and deleted', async () => {
  const response = await saveSearch(olena);
  assert.equal(response.statusCode, 201);
  const savedSearch = response.json();
  const session = (await olena.get(`/sessions/${savedSearch.session_id}`)).json();
  assert.deepEqual([session.name, session.user_id], ['Біля парку', 'u-olena']);
  const defaults = { every_minutes: 60, paused: false, told_at: null };
  assert.partialDeepStrictEqual(savedSearch, { ...BODY, ...defaults });
  assert.deepEqual((await olena.get('/saved-searches')).json(), [savedSearch]);
  assert.deepEqual((await olena.get(`/saved-searches/${savedSearch.id}`)).json(), savedSearch);

  const search = { price_max: 9000, price_per_m2_max: 200, currency: 'USD' };
  const values = { name: 'Дешеві', search, every_minutes: 5, paused: true };
  const changeResponse = await changeSearch(olena, savedSearch.id, values);
  checkResponse('PATCH', '/saved-searches/:id', changeResponse);
  assert.deepEqual(changeResponse.json(), {
    ...savedSearch,
    ...values,
    updated_at: changeResponse.json().updated_at,
  });
  const resumedSearch = (await changeSearch(olena, savedSearch.id, { paused: false })).json();
  assert.deepEqual(resumedSearch, {
    ...changeResponse.json(),
    paused: false,
    updated_at: resumedSearch.updated_at,
  });
  const deleteResponse = await olena.request('DELETE', `/saved-searches/${savedSearch.id}`);
  assert.deepEqual(deleteResponse.json(), { ok: true });
  assert.deepEqual((await olena.get('/saved-searches')).json(), []);
});

test('A search reports to a session of its owner', async () => {
  const ownSession = await createSession('u-olena');
  const othersSession = await createSession('u-taras');
  const savedSearch = (await saveSearch(olena, { session_id: ownSession.id })).json();
  assert.equal(savedSearch.session_id, ownSession.id);
  for (const [session_id, code] of [
    [othersSession.id, 'session_not_yours'],
    ['s-none', 'session_not_found'],
  ] as const) {
    assert.equal((await saveSearch(olena, { session_id })).json().code, code);
    assert.equal((await changeSearch(olena, savedSearch.id, { session_id })).json().code, code);
  }
  // An admin cannot choose a session of another user.
  const { id: session_id } = await createSession('u-admin');
  const rejection = await changeSearch(admin, savedSearch.id, { session_id });
  assert.equal(rejection.json().code, 'session_not_yours');
  const unchangedSearch = (await olena.get(`/saved-searches/${savedSearch.id}`)).json();
  assert.equal(unchangedSearch.session_id, ownSession.id);
});

test('A search is paused when its session is deleted, and resumes in a new session', async () => {
  const { id, session_id: sessionId } = (await saveSearch(olena)).json();
  await olena.request('DELETE', `/sessions/${sessionId}`);
  const pausedSearch = (await olena.get(`/saved-searches/${id}`)).json();
  assert.deepEqual([pausedSearch.session_id, pausedSearch.paused], [null, true]);
  const renamedSearch = (await changeSearch(olena, id, { name: 'Інша назва' })).json();
  assert.deepEqual([renamedSearch.session_id, renamedSearch.paused], [null, true]);
  assert.equal((await changeSearch(admin, id, { paused: false })).json().code, 'session_not_found');
  const resumedSearch = (await changeSearch(olena, id, { paused: false })).json();
  assert.equal(resumedSearch.paused, false);
  const session = (await olena.get(`/sessions/${resumedSearch.session_id}`)).json();
  assert.deepEqual([session.name, session.user_id], ['Інша назва', 'u-olena']);
});

test('Empty ranges and unknown filters are rejected, as by the collector', async () => {
  const earlierSearches = (await olena.get('/saved-searches')).json();
  for (const [search, path] of [
    [{ price_min: 2, price_max: 1 }, 'body/search/price_min'],
    [{ price_per_m2_min: 2, price_per_m2_max: 1 }, 'body/search/price_per_m2_min'],
    [{ price_max: 1, currency: 'dollars' }, 'body/search/currency'],
    [{ rooms_min: 2, rooms_max: 1 }, 'body/search/rooms_min'],
    [{ floor_min: 2, floor_max: 1 }, 'body/search/floor_min'],
    [{ area_min: 2, area_max: 1 }, 'body/search/area_min'],
    [{ query: '' }, 'body/search/query'],
    [{ city: [] }, 'body/search/city'],
    [{ region: ['Львівщина', ''] }, 'body/search/region/1'],
    [{ limit: 5 }, 'body/search'],
    [{}, 'body/search'],
  ] as const) {
    const response = await saveSearch(olena, { search });
    assert.equal(response.statusCode, 422, JSON.stringify(search));
    assert.match(JSON.stringify(response.json().errors), new RegExp(path));
    const { id } = earlierSearches[0];
    assert.equal(
      (await changeSearch(olena, id, { search })).statusCode,
      422,
      JSON.stringify(search),
    );
  }
  for (const changes of [{ every_minutes: 4 }, { every_minutes: 10_081 }, { name: '' }, { x: 1 }]) {
    assert.equal((await saveSearch(olena, changes)).statusCode, 422, JSON.stringify(changes));
  }
  assert.deepEqual((await olena.get('/saved-searches')).json(), earlierSearches);
  const validSearch = { rooms_min: 2, rooms_max: 2, area_min: 9 };
  assert.equal((await saveSearch(taras, { search: validSearch })).statusCode, 201);
});

test('A user has at most twenty searches', async () => {
  await db.deleteFrom('saved_searches').execute();
  const session = await createSession('u-taras');
  for (let index = 1; index <= 20; index += 1) {
    const name = `Пошук ${index}`;
    assert.equal((await saveSearch(taras, { name, session_id: session.id })).statusCode, 201);
  }
  const sessions = (await taras.get('/sessions')).json().length;
  const { statusCode, body } = await saveSearch(taras);
  assert.deepEqual([statusCode, JSON.parse(body).code], [409, 'too_many_saved_searches']);
  assert.equal((await taras.get('/sessions')).json().length, sessions);
  assert.equal((await saveSearch(olena)).statusCode, 201);
  const names = (await pages(taras, '/saved-searches?limit=7')).flatMap((page) =>
    page.json().map(({ name }: { name: string }) => name),
  );
  const expectedNames = Array.from({ length: 20 }, (_, index) => `Пошук ${20 - index}`);
  assert.deepEqual(names, expectedNames);
});

test('Admins access the searches of all users, which is recorded', async () => {
  const [{ id }] = (await olena.get('/saved-searches')).json();
  const unknownId = '0a4a3f2c-0f6e-4d44-9d0a-6b0f2f0e5b1e';
  for (const [path, status, code] of [
    [`/saved-searches/${id}`, 403, 'saved_search_not_yours'],
    [`/saved-searches/${unknownId}`, 404, 'saved_search_not_found'],
  ] as const) {
    for (const method of ['GET', 'PATCH', 'DELETE'] as const) {
      const payload = method === 'PATCH' ? { payload: { paused: true } } : {};
      const response = await taras.request(method, path, payload);
      assert.partialDeepStrictEqual(response.json(), { status, code }, method);
      checkResponse(method, '/saved-searches/:id', response);
    }
  }
  assert.equal((await admin.get('/saved-searches')).json().length, 0);
  assert.equal((await admin.get(`/saved-searches/${id}`)).json().id, id);
  assert.equal((await changeSearch(admin, id, { paused: true })).json().paused, true);
  const rows = await db.selectFrom('audit_log').selectAll().execute();
  const recorded = rows
    .filter(({ actor_id }) => actor_id === 'u-admin')
    .filter(({ details }) => JSON.stringify(details).includes(id))
    .map(({ action, user_id }) => [action, user_id]);
  assert.deepEqual(recorded, [
    ['others_data_read', 'u-olena'],
    ['others_data_changed', 'u-olena'],
  ]);
});

test('A search with a new session needs svc.profiles.use', async () => {
  assert.match((await saveSearch(toolUser)).json().detail, /svc\.profiles\.use/);
  const session = await createSession('u-tools');
  assert.equal((await saveSearch(toolUser, { session_id: session.id })).statusCode, 201);
});

test('The finds of a search are listed in pages, latest first', async () => {
  const { id } = (await saveSearch(olena)).json();
  const finds = Array.from({ length: 5 }, (_, index) => ({
    search_id: id,
    listing_id: index + 1,
    kind: index === 4 ? ('cheaper' as const) : ('new' as const),
    old_price: index === 4 ? 15_000 : null,
    // Finds of one transaction have the same time.
    found_at: new Date(Date.UTC(2026, 2, index === 0 ? 5 : 4)),
    told_at: index === 0 ? new Date(Date.UTC(2026, 2, 6)) : null,
  }));
  await db.insertInto('saved_search_hits').values(finds).execute();
  const responses = await pages(olena, `/saved-searches/${id}/finds?limit=2`);
  for (const response of responses) checkResponse('GET', '/saved-searches/:id/finds', response);
  const rows = responses.flatMap((response) => response.json());
  assert.deepEqual(
    rows.map(({ listing_id: listingId }) => listingId),
    [1, 5, 4, 3, 2],
  );
  assert.partialDeepStrictEqual(rows[1], { reason: 'cheaper', old_price: 15_000, told_at: null });
  const path = `/saved-searches/${id}/finds`;
  assert.equal((await taras.get(path)).json().code, 'saved_search_not_yours');
  assert.equal((await admin.get(path)).json().length, 5);
  assert.equal((await olena.get(`${path}?cursor=x`)).statusCode, 422);
});
