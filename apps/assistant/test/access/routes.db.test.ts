import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { suite, test } from 'node:test';
import { openAssistant, type Statement } from '../helpers/assistant.ts';
import { createDocumentChecker, type OpenApi } from '../helpers/openapi.ts';
import { person } from '../helpers/people.ts';
import { registeredRoutes } from '../helpers/routes.ts';
import { until } from '../helpers/until.ts';
import { SECRET as WEBHOOK_SECRET, send as sendEvent } from '../webhooks/signing.ts';
import { OWNED, type Row, rows, type Visitor, visitors } from './route-table.ts';
import { createWorld, LEGACY_SECRET, SECRET } from './world.ts';

const assistant = await openAssistant({ IDP_WEBHOOK_SECRET: WEBHOOK_SECRET });
const { provider } = assistant;
// The visitors are signed in at once, so their data must not be fetched again.
const walked = await assistant.instance({ IDP_USER_MAX_AGE_SECONDS: '3600' });
const statements: Statement[] = [];
const app = await assistant.instance({}, (statement) => statements.push(statement));
const receiver = await assistant.instance();
const world = await createWorld(assistant, walked);

const send = (visitor: Visitor, { url, payload, method }: Row, at = walked) =>
  at.inject({
    method,
    url: url.replace(OWNED.signIn, world.ownSignIn),
    cookies: world.cookiesOf(visitor),
    ...(payload !== undefined && { payload }),
  });

suite('access', async () => {
  const document: OpenApi = (await walked.inject('/openapi.json')).json();
  const { checkAnswer } = createDocumentChecker(document);
  const registered = registeredRoutes(walked);

  test('The table contains every route', () => {
    const listed = new Set(rows.map(({ route }) => route));
    const expected = registered.filter((route) => !route.startsWith('HEAD '));
    assert.deepEqual([...listed].toSorted(), expected.toSorted());
  });

  for (const row of rows) {
    const { route, method, pattern, url, holds, expect, reveals } = row;
    test(`${route} at ${url} answers ${Object.values(expect).join(', ')}`, async () => {
      for (const visitor of visitors) {
        const status = expect[visitor];
        await world.restore(holds);
        if (method === 'GET' && registered.includes(`HEAD ${pattern}`)) {
          const head = await send(visitor, { ...row, method: 'HEAD' });
          assert.equal(head.statusCode, status, `HEAD as ${visitor}`);
        }
        const answer = await send(visitor, row);
        const { body } = answer;
        assert.equal(answer.statusCode, status, `${visitor}: ${body}`);
        checkAnswer(method, pattern, answer);
        assert.equal(body.includes(SECRET), reveals.includes(visitor), `${visitor}: ${body}`);
        if (visitor !== 'admin') assert.ok(!body.includes(LEGACY_SECRET), `${visitor}: ${body}`);
        if (status === 401 || status === 403) assert.deepEqual(await world.changedTables(), []);
      }
    });
  }
});

suite('revocation during a request', async () => {
  const USER_IDS = { admin: 'u-admin', owner: OWNED.userId } as const;
  type Actor = keyof typeof USER_IDS;

  /** Sends a request, and an event to another process while the provider describes the user. */
  async function sendMeanwhile(row: Row, actor: Actor, event: string, changed: object) {
    await world.restore(row.holds);
    provider.reset();
    provider.user = world.accountOf(actor);
    const release = provider.holdNext('userinfo');
    const answer = send(actor, row, app);
    await until(() => provider.count('userinfo') === 1);
    const releaseAgain = provider.holdNext('userinfo');
    const accepted = await sendEvent(receiver, { event, user_id: USER_IDS[actor] });
    assert.equal(accepted.statusCode, 200);
    release();
    await Promise.race([answer, until(() => provider.count('userinfo') === 2)]);
    provider.user = changed;
    releaseAgain();
    return answer;
  }

  for (const row of rows) {
    const { route, url, expect } = row;
    const actor = (['admin', 'owner'] as const).find(
      (name) => Math.floor(expect[name] / 100) === 2,
    );
    if (expect.signedOut !== 401 || actor === undefined) continue;
    test(`A revocation reaches ${route} at ${url}`, async () => {
      const account = world.accountOf(actor);
      const blocked = await sendMeanwhile(row, actor, 'user.blocked', account);
      assert.equal(blocked.statusCode, 401, blocked.body);
      assert.partialDeepStrictEqual(blocked.cookies, [{ name: 'svc_auth_session', maxAge: 0 }]);
      assert.ok(!blocked.body.includes(SECRET));
      assert.deepEqual(await world.changedTables(), ['user_auth_sessions', 'webhook_events']);
      if (!Object.values(expect).includes(403)) return;
      const stripped = person(USER_IDS[actor]);
      const denied = await sendMeanwhile(row, actor, 'client.roles_changed', stripped);
      assert.equal(denied.statusCode, 403, denied.body);
      assert.ok(!denied.body.includes(SECRET));
      assert.deepEqual(await world.changedTables(), ['svc_users', 'webhook_events']);
    });
  }

  test('A request whose access is cleared during every fetch is answered 503', async () => {
    await world.restore(undefined);
    provider.reset();
    const body = JSON.stringify(world.accountOf('admin'));
    provider.faults.set('userinfo', (response) => {
      void sendEvent(receiver, { event: 'client.roles_changed', user_id: 'u-admin' }).then(() =>
        response.writeHead(200, { 'content-type': 'application/json' }).end(body),
      );
    });
    const cookies = world.cookiesOf('admin');
    const { statusCode, headers } = await app.inject({ url: '/admin/users', cookies });
    assert.deepEqual([statusCode, headers['retry-after']], [503, '5']);
    assert.equal(provider.count('userinfo'), 5);
  });

  const address = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));

  for (const [event, status, table] of [
    ['user.blocked', 401, 'user_auth_sessions'],
    ['client.roles_changed', 403, 'svc_users'],
  ] as const) {
    test(`${event} during the body of a request prevents its change`, async () => {
      await world.restore(undefined);
      provider.reset();
      provider.user = world.accountOf('admin');
      statements.length = 0;
      const [[name, value] = []] = Object.entries(world.cookiesOf('admin'));
      const path = `/memory/facts/${OWNED.category}/${OWNED.key}`;
      const request = httpRequest(new URL(path, address), {
        method: 'PUT',
        headers: { cookie: `${name}=${value}`, 'content-type': 'application/json' },
      });
      request.write('{"value":');
      // The session and its generation have been read, so the user is resolved.
      await until(() => statements.length >= 2);
      await sendEvent(receiver, { event, user_id: 'u-admin' });
      provider.user = person('u-admin');
      request.end('"Odesa"}');
      const [response] = await once(request, 'response');
      response.resume();
      assert.equal(response.statusCode, status);
      assert.deepEqual(await world.changedTables(), [table, 'webhook_events']);
    });
  }
});
