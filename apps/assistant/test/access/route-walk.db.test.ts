import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openAssistant } from '../helpers/assistant.ts';
import { createDocumentChecker, type OpenApi } from '../helpers/openapi.ts';
import { registeredRoutes } from '../helpers/routes.ts';
import { OWNED, type Row, rows, type Visitor, visitors } from './route-table.ts';
import { createWorld, LEGACY_SECRET, SECRET } from './world.ts';

const assistant = await openAssistant({
  // The users are known at once, so none of them may be asked of the provider again.
  IDP_USER_MAX_AGE_SECONDS: '3600',
  IDP_WEBHOOK_SECRET: 'shared with the provider',
});
const app = await assistant.instance();
const world = await createWorld(assistant, app);
const document: OpenApi = (await app.inject('/openapi.json')).json();
const { checkAnswer } = createDocumentChecker(document);

const registered = registeredRoutes(app);

type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

function send(visitor: Visitor, { route, url, payload }: Row, as = route.split(' ')[0]) {
  const path = url ?? route.slice(route.indexOf('/'));
  return app.inject({
    method: as as Method,
    url: path.replace(OWNED.signIn, world.ownSignIn),
    cookies: world.cookiesOf(visitor),
    ...(payload !== undefined && { payload }),
  });
}

test('every route is walked, and no other', () => {
  const walked = new Set(rows.map(({ route }) => route));
  const expected = registered.filter((route) => !route.startsWith('HEAD '));
  assert.deepEqual([...walked].toSorted(), expected.toSorted());
});

for (const row of rows) {
  const { route, url = '', holds, expect, reveals = [] } = row;
  const [method = '', pattern = ''] = route.split(' ');
  for (const visitor of visitors) {
    const status = expect[visitor];
    test(`${route} ${url} as ${visitor} is ${status}`, async () => {
      await world.restore(holds);
      if (registered.includes(`HEAD ${pattern}`) && method === 'GET') {
        const head = await send(visitor, row, 'HEAD');
        assert.equal(head.statusCode, status, 'HEAD');
      }
      const answer = await send(visitor, row);
      assert.equal(answer.statusCode, status, answer.body);
      checkAnswer(method, pattern, answer);
      assert.equal(answer.body.includes(SECRET), reveals.includes(visitor), answer.body);
      if (visitor !== 'admin') assert.ok(!answer.body.includes(LEGACY_SECRET), answer.body);
      if (status === 401 || status === 403) {
        assert.deepEqual(await world.changedTables(), [], 'a refusal changes nothing');
      }
    });
  }
}
