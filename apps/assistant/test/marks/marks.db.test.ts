import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openAssistant } from '../helpers/assistant.ts';
import { createDocumentChecker } from '../helpers/openapi.ts';
import { createPerson, pages, SEVERAL_PEOPLE } from '../helpers/people.ts';

const assistant = await openAssistant(SEVERAL_PEOPLE);
const { db } = assistant;
const app = await assistant.createInstance();
const signIn = (id: string) =>
  assistant.signInUser(app, createPerson(id, { permissions: ['svc.tools.use'] }));
const olena = await signIn('u-olena');
const taras = await signIn('u-taras');
const iryna = await signIn('u-iryna');
const stranger = await signIn('u-stranger');
const admin = await assistant.signInUser(app, createPerson('u-admin', { isAdmin: true }));
const { checkResponse } = createDocumentChecker((await app.inject('/openapi.json')).json());

type Browser = typeof olena;
type Method = Parameters<Browser['request']>[0];

/** Sends a request, checks the response against the document, and returns its status, error code and body. */
async function send(browser: Browser, method: Method, url: string, payload?: object) {
  const response = await browser.request(method, url, payload === undefined ? {} : { payload });
  const route = url
    .replace(/\?.*/, '')
    .replace(/^(\/listings|\/boards)\/[^/]+/, '$1/:id')
    .replace(/\/items\/[^/]+/, '/items/:listing_id')
    .replace(/\/comments\/[^/]+/, '/comments/:comment_id')
    .replace(/\/members\/[^/]+/, '/members/:user_id');
  checkResponse(method, route, response);
  return { status: response.statusCode, body: response.json() };
}

const mark = (browser: Browser, listingId: number | string, payload: object) =>
  send(browser, 'PUT', `/listings/${listingId}/mark`, payload);

const listIds = (rows: { listing_id: number }[]) => rows.map(({ listing_id: id }) => id);

test('A mark keeps the values that a change does not name, belongs to its user, and can be removed', async () => {
  const values = {
    status: 'viewing',
    rating: 4,
    note: 'Спитати про опалення',
    tags: ['біля парку', 'світла'],
    follow_up_on: '2026-03-09',
  };
  const created = (await mark(olena, 11, values)).body;
  assert.partialDeepStrictEqual(created, { listing_id: 11, ...values, hidden: false, seen: false });
  const changed = (await mark(olena, 11, { hidden: true, seen: true, note: null })).body;
  const expected = { ...created, hidden: true, seen: true, note: null };
  assert.deepEqual(changed, { ...expected, updated_at: changed.updated_at });
  for (const id of [12, 13, Number.MAX_SAFE_INTEGER]) await mark(olena, id, { seen: true });
  await mark(taras, 11, { rating: 1 });

  for (const [query, ids] of [
    ['', [Number.MAX_SAFE_INTEGER, 13, 12, 11]],
    ['?status=viewing', [11]],
    ['?status=rejected', []],
    [`?tag=${encodeURIComponent('світла')}`, [11]],
    ['?hidden=false&listing_id=12&listing_id=11', [12]],
    ['?listing_id=11', [11]],
    ['?follow_up_until=2026-03-08', []],
    ['?follow_up_until=2026-03-09', [11]],
  ] as const) {
    assert.deepEqual(listIds((await send(olena, 'GET', `/marks${query}`)).body), ids, query);
  }
  const rows = (await pages(olena, '/marks?limit=3')).flatMap((page) => page.json());
  assert.deepEqual(listIds(rows), [Number.MAX_SAFE_INTEGER, 13, 12, 11]);
  assert.equal((await send(olena, 'DELETE', '/listings/11/mark')).status, 200);
  assert.equal((await send(olena, 'DELETE', '/listings/11/mark')).body.code, 'mark_not_found');
  assert.deepEqual(listIds((await send(taras, 'GET', '/marks')).body), [11]);
});

test('Marks with values that break a rule are rejected', async () => {
  for (const [payload, path] of [
    [{}, 'body'],
    [{ status: 'bought' }, 'body/status'],
    [{ rating: 0 }, 'body/rating'],
    [{ rating: 6 }, 'body/rating'],
    [{ rating: 2.5 }, 'body/rating'],
    [{ note: '' }, 'body/note'],
    [{ note: 'a'.repeat(4001) }, 'body/note'],
    [{ note: '\u0000' }, 'body/note'],
    [{ tags: Array.from({ length: 21 }, (_, index) => `${index}`) }, 'body/tags'],
    [{ tags: ['a', 'a'] }, 'body/tags'],
    [{ tags: ['a'.repeat(51)] }, 'body/tags/0'],
    [{ hidden: null }, 'body/hidden'],
    [{ follow_up_on: '2026-02-30' }, 'body/follow_up_on'],
    [{ follow_up_on: '0000-01-01' }, 'body/follow_up_on'],
    [{ color: 'red' }, 'body'],
  ] as const) {
    const { status, body } = await mark(olena, 50, payload);
    assert.equal(status, 422, JSON.stringify(payload));
    assert.ok(body.errors[0].path.startsWith(path), `${path}: ${JSON.stringify(body.errors)}`);
  }
  for (const id of ['0', '-1', 'x', '1.5', '9007199254740993', '1e400']) {
    assert.equal((await mark(olena, id, { seen: true })).status, 422, id);
  }
  for (const query of ['listing_id=x', 'status=x', 'follow_up_until=x', 'cursor=x', 'limit=1001']) {
    assert.equal((await send(olena, 'GET', `/marks?${query}`)).status, 422, query);
  }
  assert.deepEqual((await send(olena, 'GET', '/marks?listing_id=50')).body, []);
});

test('A user marks at most 20,000 listings', async () => {
  const rows = Array.from({ length: 20_000 }, (_, index) => index + 1);
  for (let start = 0; start < rows.length; start += 10_000) {
    await db
      .insertInto('listing_marks')
      .values(
        rows.slice(start, start + 10_000).map((listing_id) => ({ user_id: 'u-iryna', listing_id })),
      )
      .execute();
  }
  assert.equal((await mark(iryna, 20_001, { seen: true })).body.code, 'too_many_marks');
  assert.equal((await mark(iryna, 1, { seen: true })).status, 200);
});

/** Creates a board of Olena with Taras as an editor and Iryna as a viewer, and two listings. */
async function createSharedBoard(): Promise<string> {
  const { id } = (await send(olena, 'POST', '/boards', { name: 'Для нас' })).body;
  for (const member of [
    { email: 'U-Taras@example.test', role: 'editor' },
    { user_id: 'u-iryna', role: 'viewer' },
  ]) {
    assert.equal((await send(olena, 'POST', `/boards/${id}/members`, member)).status, 200);
  }
  for (const listing_id of [7, 8]) {
    const { status } = await send(taras, 'POST', `/boards/${id}/items`, { listing_id });
    assert.equal(status, 200);
  }
  return id;
}

test('Members of a board see each verdict, comment, and order listings', async () => {
  const id = await createSharedBoard();
  const item = `/boards/${id}/items/7`;
  await send(iryna, 'PUT', `${item}/verdict`, { verdict: 'no' });
  await send(iryna, 'PUT', `${item}/verdict`, { verdict: 'yes' });
  await send(olena, 'PUT', `${item}/verdict`, { verdict: 'maybe' });
  await send(taras, 'PUT', `${item}/verdict`, { verdict: 'no' });
  await send(taras, 'PUT', `${item}/verdict`, { verdict: null });
  const comment = (await send(iryna, 'POST', `${item}/comments`, { text: 'Далеко' })).body;
  assert.partialDeepStrictEqual(comment, { display_name: 'u-iryna', text: 'Далеко' });
  const status = { listing_id: 9, status: 'viewing', note: 'У суботу', position: 0 };
  await send(taras, 'POST', `/boards/${id}/items`, status);
  await send(taras, 'POST', `/boards/${id}/items`, { listing_id: 7, position: 100 });
  await send(taras, 'POST', `/boards/${id}/items`, { listing_id: 9, note: null });

  const board = (await send(iryna, 'GET', `/boards/${id}`)).body;
  assert.partialDeepStrictEqual(board, { name: 'Для нас', role: 'viewer', member_count: 3 });
  assert.deepEqual(
    board.members.map(({ user_id, role }: Record<string, string>) => [user_id, role]),
    [
      ['u-olena', 'owner'],
      ['u-taras', 'editor'],
      ['u-iryna', 'viewer'],
    ],
  );
  assert.deepEqual(listIds(board.items), [9, 8, 7]);
  assert.partialDeepStrictEqual(board.items[0], { status: 'viewing', note: null });
  assert.deepEqual(
    board.items[2].verdicts.map(({ user_id, verdict }: Record<string, string>) => [
      user_id,
      verdict,
    ]),
    [
      ['u-iryna', 'yes'],
      ['u-olena', 'maybe'],
    ],
  );
  assert.equal(board.items[2].comment_count, 1);
  assert.deepEqual((await send(taras, 'GET', `${item}/comments`)).body, [comment]);
  const [summary] = (await send(taras, 'GET', '/boards')).body;
  assert.partialDeepStrictEqual(summary, { id, role: 'editor', item_count: 3 });

  assert.equal((await send(iryna, 'DELETE', `/boards/${id}/members/u-iryna`)).status, 200);
  const remaining = (await send(olena, 'GET', `/boards/${id}`)).body;
  assert.equal(remaining.items[2].verdicts.length, 1);
  assert.deepEqual((await send(olena, 'GET', `${item}/comments`)).body, [comment]);
  assert.equal((await send(iryna, 'GET', `/boards/${id}`)).body.code, 'board_not_found');
  assert.equal((await send(olena, 'DELETE', `${item}/comments/${comment.id}`)).status, 200);
  assert.equal((await send(taras, 'DELETE', item)).status, 200);
  assert.equal((await send(taras, 'GET', `${item}/comments`)).body.code, 'board_item_not_found');
});

test('The role on a board decides, strangers find none, and the access of admins is recorded', async () => {
  const id = await createSharedBoard();
  const comment = (await send(taras, 'POST', `/boards/${id}/items/7/comments`, { text: 'Так' }))
    .body;
  const commentPath = `/items/7/comments/${comment.id}`;
  const requests: [Method, string, object?][] = [
    ['GET', ''],
    ['GET', '/items/7/comments'],
    ['PUT', '/items/7/verdict', { verdict: 'yes' }],
    ['POST', '/items/7/comments', { text: 'Ні' }],
    ['POST', '/items', { listing_id: 9 }],
    ['DELETE', '/items/8'],
    ['DELETE', commentPath],
    ['PATCH', '', { name: 'Наші' }],
    ['POST', '/members', { user_id: 'u-stranger', role: 'editor' }],
    ['DELETE', '/members/u-taras'],
    ['DELETE', ''],
  ];
  for (const [browser, allowed, code] of [
    [stranger, 0, 'board_not_found'],
    [iryna, 4, 'board_role_missing'],
  ] as const) {
    for (const [index, [method, path, payload]] of requests.entries()) {
      const { status, body } = await send(browser, method, `/boards/${id}${path}`, payload);
      if (index < allowed) assert.ok(status < 300, `${method} ${path}: ${status}`);
      else assert.equal(body.code, code, `${method} ${path}`);
    }
  }
  for (const [method, path, payload] of requests.slice(7)) {
    const { body } = await send(taras, method, `/boards/${id}${path}`, payload);
    const code = path === '/members/u-taras' ? undefined : 'board_role_missing';
    assert.equal(body.code, code, `${method} ${path}`);
    // Members can leave.
    if (code === undefined)
      await send(olena, 'POST', `/boards/${id}/members`, { user_id: 'u-taras', role: 'editor' });
  }
  for (const payload of [{ user_id: 'u-olena', role: 'viewer' }]) {
    const { body } = await send(olena, 'POST', `/boards/${id}/members`, payload);
    assert.equal(body.code, 'board_owner_stays');
  }
  assert.equal(
    (await send(olena, 'DELETE', `/boards/${id}/members/u-olena`)).body.code,
    'board_owner_stays',
  );
  assert.equal(
    (await send(olena, 'DELETE', `/boards/${id}/members/u-x`)).body.code,
    'member_not_found',
  );

  await db.deleteFrom('audit_log').execute();
  assert.equal((await send(admin, 'GET', `/boards/${id}`)).body.role, null);
  assert.equal((await send(admin, 'DELETE', `/boards/${id}`)).status, 200);
  const details = { data: 'board', board_id: id };
  for (const action of ['others_data_read', 'others_data_changed'] as const) {
    assert.deepEqual(await assistant.listAuditEntries(action), [
      { actor_id: 'u-admin', user_id: 'u-olena', details },
    ]);
  }
  assert.equal((await send(olena, 'GET', `/boards/${id}`)).body.code, 'board_not_found');
});

test('Concurrent changes of a board keep every listing once', async () => {
  const { id } = (await send(taras, 'POST', '/boards', { name: 'Разом' })).body;
  await Promise.all(
    Array.from({ length: 8 }, (_, index) =>
      send(taras, 'POST', `/boards/${id}/items`, { listing_id: index + 1, position: 0 }),
    ),
  );
  const { items } = (await send(taras, 'GET', `/boards/${id}`)).body;
  assert.deepEqual(
    listIds(items).toSorted((a, b) => a - b),
    [1, 2, 3, 4, 5, 6, 7, 8],
  );
});

test('A signed-out member is rejected, and an export has the verdicts and comments of the user', async () => {
  const id = await createSharedBoard();
  await send(iryna, 'PUT', `/boards/${id}/items/7/verdict`, { verdict: 'no' });
  await send(iryna, 'POST', `/boards/${id}/items/7/comments`, { text: 'Гучно' });
  await send(olena, 'POST', `/boards/${id}/items`, { listing_id: 7, note: 'Нотатка Олени' });
  const document = (await iryna.get('/me/export')).json();
  const board = document.boards.find((row: { id: string }) => row.id === id);
  assert.deepEqual(board.items, [
    { listing_id: 7, verdict: 'no' },
    { listing_id: 8, verdict: null },
  ]);
  const comments = document.board_comments.filter(
    (row: { board_id: string }) => row.board_id === id,
  );
  assert.partialDeepStrictEqual(comments, [{ text: 'Гучно' }]);
  await admin.post('/admin/users/u-iryna/sign-out');
  assert.equal((await send(iryna, 'GET', `/boards/${id}`)).body.code, 'not_signed_in');
  assert.equal((await mark(iryna, 1, { seen: true })).body.code, 'not_signed_in');
});

test('Boards, members, listings and comments have limits, and invalid values are rejected', async () => {
  const id = await createSharedBoard();
  const cases: [Method, string, object][] = [
    ['POST', '', { name: '' }],
    ['PATCH', `/${id}`, { name: 'a'.repeat(101) }],
    ['PATCH', `/${id}`, {}],
    ['POST', `/${id}/members`, { role: 'viewer' }],
    ['POST', `/${id}/members`, { role: 'viewer', user_id: 'u-1', email: 'a@b.test' }],
    ['POST', `/${id}/members`, { role: 'owner', user_id: 'u-taras' }],
    ['POST', `/${id}/items`, { listing_id: 0 }],
    ['POST', `/${id}/items`, { listing_id: 7, position: -1 }],
    ['POST', `/${id}/items`, { listing_id: 7, status: 'bought' }],
    ['PUT', `/${id}/items/7/verdict`, { verdict: 'never' }],
    ['POST', `/${id}/items/7/comments`, { text: '' }],
    ['POST', `/${id}/items/x/comments`, { text: 'a' }],
  ];
  for (const [method, path, payload] of cases) {
    const { status, body } = await send(olena, method, `/boards${path}`, payload);
    assert.equal(status, 422, `${method} ${path} ${JSON.stringify(payload)}`);
    assert.ok(body.errors.length > 0);
  }
  const unknownUser = { email: 'absent@example.test', role: 'viewer' };
  assert.equal(
    (await send(olena, 'POST', `/boards/${id}/members`, unknownUser)).body.code,
    'user_not_found',
  );

  const numbers = Array.from({ length: 200 }, (_, index) => index + 100);
  await db
    .insertInto('board_members')
    .values(
      numbers
        .slice(0, 47)
        .map((n) => ({ board_id: id, user_id: `u-${n}`, role: 'viewer' as const })),
    )
    .execute();
  await db
    .insertInto('board_items')
    .values(numbers.slice(0, 198).map((n) => ({ board_id: id, listing_id: n, position: n })))
    .execute();
  await db
    .insertInto('board_comments')
    .values(numbers.map(() => ({ board_id: id, listing_id: 7, user_id: 'u-olena', text: 'x' })))
    .execute();
  for (const [path, payload] of [
    ['members', { user_id: 'u-stranger', role: 'viewer' }],
    ['items', { listing_id: 9 }],
    ['items/7/comments', { text: 'x' }],
  ] as const) {
    const { body } = await send(olena, 'POST', `/boards/${id}/${path}`, payload);
    assert.equal(body.code, 'board_full', path);
  }
  assert.equal(
    (await send(olena, 'POST', `/boards/${id}/items`, { listing_id: 8, position: 0 })).status,
    200,
  );
  for (let count = (await send(olena, 'GET', '/boards')).body.length; count < 50; count += 1) {
    assert.equal((await send(olena, 'POST', '/boards', { name: 'Ще' })).status, 201);
  }
  assert.equal((await send(olena, 'POST', '/boards', { name: 'Ще' })).body.code, 'too_many_boards');
  const rows = (await pages(olena, '/boards?limit=20')).flatMap((page) => page.json());
  assert.equal(new Set(rows.map((row: { id: string }) => row.id)).size, 50);
});
