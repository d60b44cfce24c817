import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { suite, test } from 'node:test';
import { openAssistant, type Statement } from '../helpers/assistant.ts';
import { person } from '../helpers/people.ts';
import { until } from '../helpers/until.ts';
import { SECRET as WEBHOOK_SECRET, send as sendEvent } from '../webhooks/signing.ts';
import { OWNED, type Row, rows } from './route-table.ts';
import { createWorld, SECRET } from './world.ts';

const assistant = await openAssistant({ IDP_WEBHOOK_SECRET: WEBHOOK_SECRET });
const { provider } = assistant;
const statements: Statement[] = [];
const app = await assistant.instance({}, (statement) => statements.push(statement));
const second = await assistant.instance();
const world = await createWorld(assistant, app);

const USER_IDS = { admin: 'u-admin', owner: OWNED.userId } as const;
type Actor = keyof typeof USER_IDS;

const isSuccess = (status: number) => status >= 200 && status < 300;

/** The requests that need a user, with one who may send them. */
const cases = rows.flatMap((row): { row: Row; actor: Actor }[] => {
  const actor = (['admin', 'owner'] as const).find((visitor) => isSuccess(row.expect[visitor]));
  return row.expect.nobody === 401 && actor !== undefined ? [{ row, actor }] : [];
});

const methodOf = ({ route }: Row) =>
  route.slice(0, route.indexOf(' ')) as 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** Sends a request and an event while the provider describes the user; both are answered. */
async function sendMeanwhile(
  { row, actor }: { row: Row; actor: Actor },
  event: string,
  receiver: typeof app,
  after: object,
) {
  await world.restore(row.holds);
  provider.reset();
  provider.user = world.accountOf(actor);
  const release = provider.holdNext('userinfo');
  const { route, url = route.slice(route.indexOf('/')), payload } = row;
  const answer = app.inject({
    method: methodOf(row),
    url: url.replace(OWNED.signIn, world.ownSignIn),
    cookies: world.cookiesOf(actor),
    ...(payload !== undefined && { payload }),
  });
  await until(() => provider.count('userinfo') === 1);
  const releaseAgain = provider.holdNext('userinfo');
  const taken = await sendEvent(receiver, { event, user_id: USER_IDS[actor] });
  assert.equal(taken.statusCode, 200);
  release();
  await Promise.race([answer, until(() => provider.count('userinfo') === 2)]);
  provider.user = after;
  releaseAgain();
  return answer;
}

test('requests of every method are in the table', () => {
  const methods = new Set(cases.map(({ row }) => methodOf(row)));
  assert.deepEqual([...methods].toSorted(), ['DELETE', 'GET', 'PATCH', 'POST', 'PUT']);
});

for (const [process, receiver] of [
  ['the same process', app],
  ['another process', second],
] as const) {
  suite(`an event that ${process} takes while the provider describes the user`, () => {
    for (const one of cases) {
      const { route, url = '', expect } = one.row;
      test(`blocks ${route} ${url}`, async () => {
        const after = world.accountOf(one.actor);
        const answer = await sendMeanwhile(one, 'user.blocked', receiver, after);
        assert.equal(answer.statusCode, 401, answer.body);
        assert.deepEqual(
          answer.cookies.map(({ name, maxAge }) => [name, maxAge]),
          [['svc_auth_session', 0]],
        );
        assert.ok(!answer.body.includes(SECRET));
        assert.deepEqual(await world.changedTables(), ['user_auth_sessions', 'webhook_events']);
      });

      // Where everybody may send it, whatever their rights, there is nothing to take away.
      if (!Object.values(expect).includes(403)) continue;
      test(`takes the right to ${route} ${url} away`, async () => {
        const id = USER_IDS[one.actor];
        const answer = await sendMeanwhile(one, 'client.roles_changed', receiver, person(id));
        assert.equal(answer.statusCode, 403, answer.body);
        assert.ok(!answer.body.includes(SECRET));
        assert.deepEqual(await world.changedTables(), ['svc_users', 'webhook_events']);
      });
    }
  });
}

test('access that is cleared again and again while the provider answers is 503', async () => {
  await world.restore(undefined);
  provider.reset();
  const body = JSON.stringify(world.accountOf('admin'));
  provider.faults.set('userinfo', (response) => {
    void sendEvent(second, { event: 'client.roles_changed', user_id: 'u-admin' }).then(() =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(body),
    );
  });
  const cookies = world.cookiesOf('admin');
  const { statusCode, headers } = await app.inject({ url: '/admin/users', cookies });
  assert.deepEqual([statusCode, headers['retry-after']], [503, '5']);
  assert.equal(provider.count('userinfo'), 5);
});

suite('an event that is taken while the body is on its way', async () => {
  const address = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));

  /** Sends the first half of a body, and gives what sends the rest and waits for the answer. */
  async function beginRequest(method: string, path: string, cookies: Record<string, string>) {
    statements.length = 0;
    const [[name, value] = []] = Object.entries(cookies);
    const request = httpRequest(new URL(path, address), {
      method,
      headers: { cookie: `${name}=${value}`, 'content-type': 'application/json' },
    });
    request.write('{"value":');
    // The session, and its generation after the provider's answer: its user is resolved.
    await until(() => statements.length >= 2);
    return async () => {
      request.end('"Odesa"}');
      const [response] = await once(request, 'response');
      response.resume();
      return Number(response.statusCode);
    };
  }

  for (const [event, status, after] of [
    ['user.blocked', 401, 'user_auth_sessions'],
    ['client.roles_changed', 403, 'svc_users'],
  ] as const) {
    for (const path of [
      `/memory/facts/${OWNED.category}/${OWNED.key}`,
      `/sessions/${OWNED.sessionId}/files/${OWNED.fileName}`,
    ]) {
      test(`${event} lets PUT ${path} change nothing`, async () => {
        await world.restore(undefined);
        provider.reset();
        provider.user = world.accountOf('admin');
        const finish = await beginRequest('PUT', path, world.cookiesOf('admin'));
        await sendEvent(second, { event, user_id: 'u-admin' });
        provider.user = person('u-admin');
        assert.equal(await finish(), status);
        assert.deepEqual(await world.changedTables(), [after, 'webhook_events']);
      });
    }
  }
});
