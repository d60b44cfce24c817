import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { auditActions, recordAudit } from '../../src/admin/audit.ts';
import { USER_CHANNEL } from '../../src/identity/revocation.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { until } from '../helpers/until.ts';
import { OLENA } from '../scripted-provider.ts';

const { db, provider, instance, listen, signedIn, expire } = await openAssistant();
const app = await instance();
provider.user = {
  ...OLENA,
  client_access_list: [{ client_id: 'oselya', role_ids: ['svc_admin'], permission_ids: [] }],
};
const admin = await signedIn(app);

type Line = { id: number; action: string; actor_id: string | null; user_id: string | null };

const read = async (query = ''): Promise<Line[]> =>
  (await admin.get(`/admin/audit${query}`)).json();

const ACTIONS = auditActions.slice(0, 10);

/** A trail with one line a day, the first of them on the second of January 2020. */
before(async () => {
  await db.deleteFrom('audit_log').execute();
  for (const [index, action] of ACTIONS.entries()) {
    await recordAudit(db, {
      action,
      actorId: index % 2 === 0 ? 'u-7' : null,
      userId: index % 3 === 0 ? 'u-8' : null,
      details: { place: index },
    });
  }
  await sql`update audit_log set created_at = timestamptz '2020-01-02T00:00:00Z'
    + make_interval(days => (details ->> 'place')::int)`.execute(db);
});

test('the trail is read newest first, each line whole', async () => {
  const trail = await read();
  assert.deepEqual(
    trail.map(({ action }) => action),
    ACTIONS.toReversed(),
  );
  const { id, ...oldest } = trail.at(-1) ?? { id: 0 };
  assert.ok(Number.isInteger(id));
  assert.deepEqual(oldest, {
    created_at: '2020-01-02T00:00:00.000Z',
    action: 'signed_in',
    actor_id: 'u-7',
    user_id: 'u-8',
    details: { place: 0 },
  });
});

test('it comes in pages', async () => {
  const seen: number[] = [];
  let next: string | undefined = '/admin/audit?limit=3';
  while (next !== undefined) {
    const answer = await admin.get(next);
    seen.push(...answer.json().map(({ id }: Line) => id));
    next = /<(.*)>; rel="next"/.exec(String(answer.headers.link))?.[1];
  }
  assert.deepEqual(
    seen,
    (await read()).map(({ id }) => id),
  );
});

for (const [query, places] of [
  ['?action=signed_out', [1]],
  ['?actor_id=u-7&limit=2', [8, 6]],
  ['?user_id=u-8', [9, 6, 3, 0]],
  ['?user_id=u-8&actor_id=u-7', [6, 0]],
  ['?since=2020-01-11T00:00:00Z', [9]],
  ['?until=2020-01-03T00:00:00Z', [0]],
  ['?since=2020-01-03T02:00:00%2B02:00&until=2020-01-04T00:00:00.001Z', [2, 1]],
  ['?until=0000-01-01T00:00:00Z', []],
  ['?since=9999-12-31T23:59:59Z', []],
  ['?actor_id=nobody', []],
] as const) {
  test(`${query} finds ${places.length}`, async () => {
    const found = (await admin.get(`/admin/audit${query}`)).json();
    assert.deepEqual(
      found.map(({ details }: { details: { place: number } }) => details.place),
      places,
    );
  });
}

for (const query of [
  '?action=nonsense',
  '?since=yesterday',
  '?since=2020-02-30T00:00:00Z',
  '?until=2016-12-31T23:59:60Z',
  '?actor_id=',
  '?user_id=%00',
  '?cursor=x',
  `?cursor=${Buffer.from('1e400').toString('base64url')}`,
  '?limit=501',
]) {
  test(`${query} is 422`, async () => {
    assert.equal((await admin.get(`/admin/audit${query}`)).statusCode, 422);
  });
}

/** Where the errors of a query are. */
const paths = async (query: string): Promise<string[]> =>
  (await admin.get(`/admin/audit${query}`)).json().errors.map(({ path }: { path: string }) => path);

test('a time that does not exist is told of as anything else that is wrong with the query', async () => {
  assert.deepEqual(await paths('?since=yesterday'), ['querystring/since']);
  assert.deepEqual(await paths('?since=2016-12-31T23:59:60Z'), ['querystring/since']);
  assert.deepEqual(await paths('?until=2016-12-31T23:59:60Z'), ['querystring/until']);
});

for (const [name, refuse] of [
  [
    'a refresh',
    async () => {
      provider.expireRefreshTokens();
    },
  ],
  [
    'the access token after its refresh',
    async () => {
      provider.faults.set('userinfo', { status: 401 });
    },
  ],
] as const) {
  test(`a sign-in that ends because the provider refuses ${name} is recorded once`, async () => {
    await db.deleteFrom('audit_log').execute();
    const browser = await signedIn(app);
    await expire(browser);
    await refuse();
    const heard: string[] = [];
    const stop = await listen(USER_CHANNEL, (payload) => heard.push(payload));
    assert.equal((await browser.get('/auth/me')).statusCode, 401);
    await until(() => heard.includes('u-1'));
    await stop();
    provider.faults.clear();
    const trail = await db
      .selectFrom('audit_log')
      .select(['action', 'actor_id', 'user_id'])
      .orderBy('id')
      .execute();
    assert.deepEqual(trail, [
      { action: 'signed_in', actor_id: 'u-1', user_id: 'u-1' },
      { action: 'session_rejected', actor_id: null, user_id: 'u-1' },
    ]);
  });
}

after(() => provider.reset());
