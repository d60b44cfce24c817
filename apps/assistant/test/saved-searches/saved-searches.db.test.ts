import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openAssistant } from '../helpers/assistant.ts';
import { createDocumentChecker } from '../helpers/openapi.ts';
import { pages, person, SEVERAL_PEOPLE } from '../helpers/people.ts';

const assistant = await openAssistant(SEVERAL_PEOPLE);
const { db } = assistant;
const app = await assistant.instance();
const permissions = ['svc.tools.use', 'svc.profiles.use'] as const;
const olena = await assistant.signedIn(app, person('u-olena', { permissions: [...permissions] }));
const taras = await assistant.signedIn(app, person('u-taras', { permissions: [...permissions] }));
const toolsOnly = await assistant.signedIn(
  app,
  person('u-tools', { permissions: ['svc.tools.use'] }),
);
const unprivileged = await assistant.signedIn(app, person('u-unprivileged', { permissions: [] }));
const admin = await assistant.signedIn(app, person('u-admin', { isAdmin: true }));
const { checkAnswer } = createDocumentChecker((await app.inject('/openapi.json')).json());

const BODY = { name: 'Біля парку', search: { query: 'парк', city: 'Львів', price_max: 15_000 } };

async function keep(browser: typeof olena, changes: object = {}) {
  const answer = await browser.post('/saved-searches', { payload: { ...BODY, ...changes } });
  checkAnswer('POST', '/saved-searches', answer);
  return answer;
}

const patch = (browser: typeof olena, id: string, payload: object) =>
  browser.request('PATCH', `/saved-searches/${id}`, { payload });

const createSession = (userId: string, name = '') =>
  db
    .insertInto('conversation_sessions')
    .values({ user_id: userId, profile_id: 'default', name })
    .returning('id')
    .executeTakeFirstOrThrow();

test('A search is saved with a session of its name, read, changed and deleted', async () => {
  const answer = await keep(olena);
  assert.equal(answer.statusCode, 201);
  const savedSearch = answer.json();
  const session = (await olena.get(`/sessions/${savedSearch.session_id}`)).json();
  assert.deepEqual([session.name, session.user_id], ['Біля парку', 'u-olena']);
  const defaults = { every_minutes: 60, paused: false, told_at: null };
  assert.partialDeepStrictEqual(savedSearch, { ...BODY, ...defaults });
  assert.deepEqual((await olena.get('/saved-searches')).json(), [savedSearch]);
  assert.deepEqual((await olena.get(`/saved-searches/${savedSearch.id}`)).json(), savedSearch);

  const values = { name: 'Дешеві', search: { price_max: 9000 }, every_minutes: 5, paused: true };
  const changeResponse = await patch(olena, savedSearch.id, values);
  checkAnswer('PATCH', '/saved-searches/:id', changeResponse);
  assert.deepEqual(changeResponse.json(), {
    ...savedSearch,
    ...values,
    updated_at: changeResponse.json().updated_at,
  });
  const resumedSearch = (await patch(olena, savedSearch.id, { paused: false })).json();
  assert.deepEqual(resumedSearch, {
    ...changeResponse.json(),
    paused: false,
    updated_at: resumedSearch.updated_at,
  });
  const deleteResponse = await olena.request('DELETE', `/saved-searches/${savedSearch.id}`);
  assert.deepEqual(deleteResponse.json(), { ok: true });
  assert.equal(
    (await olena.get(`/saved-searches/${savedSearch.id}`)).json().code,
    'saved_search_not_found',
  );
  assert.deepEqual((await olena.get('/saved-searches')).json(), []);
});

test('A search reports to a session of its owner', async () => {
  const ownSession = await createSession('u-olena');
  const othersSession = await createSession('u-taras');
  const savedSearch = (await keep(olena, { session_id: ownSession.id })).json();
  assert.equal(savedSearch.session_id, ownSession.id);
  for (const [session_id, code] of [
    [othersSession.id, 'session_not_yours'],
    ['s-none', 'session_not_found'],
  ] as const) {
    assert.equal((await keep(olena, { session_id })).json().code, code);
    assert.equal((await patch(olena, savedSearch.id, { session_id })).json().code, code);
  }
  // An admin cannot choose a session of another user.
  const adminSession = await createSession('u-admin');
  assert.equal(
    (await patch(admin, savedSearch.id, { session_id: adminSession.id })).json().code,
    'session_not_yours',
  );
  assert.equal(
    (await olena.get(`/saved-searches/${savedSearch.id}`)).json().session_id,
    ownSession.id,
  );
});

test('A search is paused when its session is deleted, and resumes in a new session', async () => {
  const { id, session_id: first } = (await keep(olena)).json();
  await olena.request('DELETE', `/sessions/${first}`);
  const paused = (await olena.get(`/saved-searches/${id}`)).json();
  assert.deepEqual([paused.session_id, paused.paused], [null, true]);
  const renamed = (await patch(olena, id, { name: 'Інша назва' })).json();
  assert.deepEqual([renamed.session_id, renamed.paused], [null, true]);
  assert.equal((await patch(admin, id, { paused: false })).json().code, 'session_not_found');
  const pausedSearch = (await patch(olena, id, { paused: false })).json();
  assert.equal(pausedSearch.paused, false);
  const session = (await olena.get(`/sessions/${pausedSearch.session_id}`)).json();
  assert.deepEqual([session.name, session.user_id], ['Інша назва', 'u-olena']);
});

test('Empty ranges and unknown filters are rejected, as by the collector', async () => {
  const before = (await olena.get('/saved-searches')).json();
  for (const [search, path] of [
    [{ price_min: 2, price_max: 1 }, 'body/search/price_min'],
    [{ rooms_min: 2, rooms_max: 1 }, 'body/search/rooms_min'],
    [{ area_min: 2, area_max: 1 }, 'body/search/area_min'],
    [{ query: '' }, 'body/search/query'],
    [{ limit: 5 }, 'body/search'],
    [{}, 'body/search'],
  ] as const) {
    const answer = await keep(olena, { search });
    assert.equal(answer.statusCode, 422, JSON.stringify(search));
    assert.match(JSON.stringify(answer.json().errors), new RegExp(path));
    const { id } = before[0];
    assert.equal((await patch(olena, id, { search })).statusCode, 422, JSON.stringify(search));
  }
  for (const wrong of [{ every_minutes: 4 }, { every_minutes: 10_081 }, { name: '' }, { x: 1 }]) {
    assert.equal((await keep(olena, wrong)).statusCode, 422, JSON.stringify(wrong));
  }
  assert.deepEqual((await olena.get('/saved-searches')).json(), before);
  const equal = { rooms_min: 2, rooms_max: 2, area_min: 9 };
  assert.equal((await keep(taras, { search: equal })).statusCode, 201);
});

test('A user has at most twenty searches', async () => {
  await db.deleteFrom('saved_searches').execute();
  const session = await createSession('u-taras');
  for (let index = 1; index <= 20; index += 1) {
    const name = `Пошук ${index}`;
    assert.equal((await keep(taras, { name, session_id: session.id })).statusCode, 201);
  }
  const sessions = (await taras.get('/sessions')).json().length;
  const rejectedResponse = await keep(taras);
  assert.deepEqual(
    [rejectedResponse.statusCode, rejectedResponse.json().code],
    [409, 'too_many_saved_searches'],
  );
  assert.equal((await taras.get('/sessions')).json().length, sessions);
  assert.equal((await keep(olena)).statusCode, 201);
  const names = (await pages(taras, '/saved-searches?limit=7')).flatMap((page) =>
    page.json().map(({ name }: { name: string }) => name),
  );
  assert.deepEqual(
    names,
    Array.from({ length: 20 }, (_, index) => `Пошук ${20 - index}`),
  );
});

test('Users access their own searches, admins all, which is recorded', async () => {
  const [{ id }] = (await olena.get('/saved-searches')).json();
  for (const method of ['GET', 'PATCH', 'DELETE'] as const) {
    const options = method === 'PATCH' ? { payload: { paused: true } } : {};
    const theirs = await taras.request(method, `/saved-searches/${id}`, options);
    assert.deepEqual([theirs.statusCode, theirs.json().code], [403, 'saved_search_not_yours']);
    const none = await taras.request(method, '/saved-searches/none', options);
    assert.deepEqual([none.statusCode, none.json().code], [404, 'saved_search_not_found']);
    assert.equal(
      (await unprivileged.request(method, `/saved-searches/${id}`, options)).statusCode,
      403,
    );
  }
  assert.equal((await admin.get('/saved-searches')).json().length, 0);
  assert.equal((await admin.get(`/saved-searches/${id}`)).json().id, id);
  assert.equal((await patch(admin, id, { paused: true })).json().paused, true);
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

test('Saved searches need svc.tools.use, and a new session svc.profiles.use', async () => {
  assert.equal((await keep(unprivileged)).json().code, 'permission_missing');
  assert.match((await keep(toolsOnly)).json().detail, /svc\.profiles\.use/);
  const session = await createSession('u-tools');
  assert.equal((await keep(toolsOnly, { session_id: session.id })).statusCode, 201);
});
