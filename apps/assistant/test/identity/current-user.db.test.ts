import assert from 'node:assert/strict';
import { suite, beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { setCachedRole } from '../../src/identity/revocation.ts';
import { openAssistant, type Browser, type Statement } from '../helpers/assistant.ts';
import { giveIdTokens } from '../helpers/signing-key.ts';
import { until } from '../helpers/until.ts';
import { OLENA } from '../scripted-provider.ts';

const { db, provider, lines, instance, signedIn, row, expire } = await openAssistant();

suite('user data on each request', async () => {
  const app = await instance();

  beforeEach(() => provider.reset());

  /** Changes with every write of the user record. */
  async function userVersion(): Promise<string | undefined> {
    const { rows } = await sql<{ xmin: string }>`
    select xmin::text from svc_users where id = 'u-1'`.execute(db);
    return rows[0]?.xmin;
  }

  test('a valid token is not refreshed, and user data is fetched afresh', async () => {
    const browser = await signedIn(app);
    assert.equal((await browser.get('/auth/me')).json().role, 'user');
    provider.user = {
      ...OLENA,
      client_access_list: [
        { client_id: 'oselya', role_ids: ['svc_admin'], permission_ids: ['svc.debug.access'] },
      ],
    };
    const me = (await browser.get('/auth/me')).json();
    assert.equal(me.role, 'admin');
    assert.deepEqual(me.permissions, ['svc.debug.access']);
    assert.equal(provider.count('token'), 0);
    assert.equal(provider.count('userinfo'), 2);
    const user = await db.selectFrom('svc_users').selectAll().executeTakeFirstOrThrow();
    assert.equal(user.role, 'admin');
    assert.equal(user.permissions, '["svc.debug.access"]');
  });

  test('the user record is written only when something changed', async () => {
    const browser = await signedIn(app);
    await browser.get('/auth/me');
    const before = await userVersion();
    await browser.get('/auth/me');
    assert.equal(await userVersion(), before);
    provider.user = { ...OLENA, email: 'new@example.test' };
    await browser.get('/auth/me');
    assert.notEqual(await userVersion(), before);
  });

  test('requests of one session that wait at the same moment share one fetch', async () => {
    let reads = 0;
    const watched = await instance({}, (statement) => {
      if (statement === 'read') reads += 1;
    });
    const { sid } = await signedIn(watched);
    const another = await signedIn(watched);
    const ask = () => watched.inject({ url: '/auth/me', cookies: { svc_auth_session: sid } });
    reads = 0;
    const release = provider.holdNext('userinfo');
    const requests = Array.from({ length: 20 }, ask);
    await until(() => reads === 20 && provider.count('userinfo') === 1);
    // What comes after them all is answered: by then each of them has come as far as the fetch.
    assert.equal((await another.get('/auth/me')).statusCode, 200);
    release();
    for (const answer of await Promise.all(requests)) assert.equal(answer.statusCode, 200);
    assert.equal(provider.count('userinfo'), 2, 'theirs, and the one of the other session');
    await ask();
    assert.equal(provider.count('userinfo'), 3, 'nothing is remembered');
  });

  test('an answer without end is given up', async () => {
    const browser = await signedIn(app);
    provider.faults.set('userinfo', { status: 200, body: `"${'a'.repeat(300_000)}"` });
    assert.equal((await browser.get('/auth/me')).statusCode, 503);
  });

  for (const [said, fault] of [
    ['nothing', { status: 401 }],
    ['a page', { status: 401, body: '<p>No</p>', headers: { 'content-type': 'text/html' } }],
  ] as const) {
    test(`an access token that is refused with ${said} after its refresh too ends the session`, async () => {
      const browser = await signedIn(app);
      const { sid } = browser;
      provider.faults.set('userinfo', fault);
      assert.equal((await browser.get('/auth/me')).statusCode, 401);
      assert.equal(provider.count('token'), 1);
      assert.equal(provider.count('userinfo'), 2);
      assert.equal(await row(sid), undefined);
      assert.ok(!browser.cookies.has('svc_auth_session'));
    });
  }

  test('user data of somebody else ends the session and is not used', async () => {
    const browser = await signedIn(app);
    const { sid } = browser;
    provider.user = { ...OLENA, sub: 'u-other' };
    assert.equal((await browser.get('/auth/me')).statusCode, 401);
    assert.equal(await row(sid), undefined);
  });

  test('an email that is gone at the provider is 503 of its own, and signs nobody out', async () => {
    const browser = await signedIn(app);
    provider.user = { ...OLENA, email: undefined };
    const answer = await browser.get('/auth/me');
    assert.deepEqual([answer.statusCode, answer.json().code], [503, 'user_without_email']);
    provider.user = OLENA;
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
  });

  test('user data that cannot be had is 503 and signs nobody out', async () => {
    const browser = await signedIn(app);
    for (const fault of [{ status: 500 }, { status: 200, body: '[]' }, 'disconnect' as const]) {
      provider.faults.set('userinfo', fault);
      assert.equal((await browser.get('/auth/me')).statusCode, 503);
    }
    provider.faults.clear();
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
    assert.equal(provider.count('token'), 0);
  });

  test('of two cookies of one name the first counts, and no request falls back to the other', async () => {
    const { sid } = await signedIn(app);
    const planted = 'A'.repeat(43);
    for (const [values, status] of [
      [[sid, planted], 200],
      [[planted, sid], 401],
      [['', sid], 401],
    ] as const) {
      const cookie = values.map((value) => `svc_auth_session=${value}`).join('; ');
      const answer = await app.inject({ url: '/auth/me', headers: { cookie } });
      assert.equal(answer.statusCode, status, cookie);
    }
    assert.notEqual(await row(sid), undefined);
  });

  for (const [name, value] of [
    ['an unknown', 'A'.repeat(43)],
    ['a malformed', 'short'],
    ['an empty', ''],
    ["someone's SQL for a", "' or 1=1 --"],
  ]) {
    test(`${name} cookie is 401 and is cleared`, async () => {
      const answer = await app.inject({
        url: '/auth/me',
        headers: { cookie: `svc_auth_session=${encodeURIComponent(value ?? '')}` },
      });
      assert.equal(answer.statusCode, 401);
      assert.deepEqual(
        answer.cookies.map(({ name: cookie, maxAge, path }) => [cookie, maxAge, path]),
        [['svc_auth_session', 0, '/']],
      );
      assert.equal(provider.count('userinfo'), 0);
    });
  }

  test('no cookie is 401 and none is set', async () => {
    const answer = await app.inject('/auth/me');
    assert.equal(answer.statusCode, 401);
    assert.deepEqual(answer.cookies, []);
  });

  test('the lifetime of a session holds on the server too', async () => {
    const browser = await signedIn(app);
    const { sid } = browser;
    await sql`
    update user_auth_sessions set created_at = now() - interval '30 days' where id = ${sid}`.execute(
      db,
    );
    assert.equal((await browser.get('/auth/me')).statusCode, 401);
    assert.notEqual(await row(sid), undefined, 'it counts no more, swept out or not');
  });

  test('a session that is not used ends after SVC_AUTH_IDLE_DAYS, one that is used does not', async () => {
    const idling = await instance({ SVC_AUTH_IDLE_DAYS: '7' });
    const browser = await signedIn(idling);
    const lastUsed = (age: string) =>
      sql`update user_auth_sessions set created_at = now() - interval '20 days',
      last_used_at = now() - ${age}::interval where id = ${browser.sid}`.execute(db);
    await lastUsed('6 days 23 hours');
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
    await lastUsed('1 hour');
    assert.equal((await browser.get('/auth/sessions')).statusCode, 200);
    await lastUsed('7 days');
    assert.equal((await browser.get('/auth/me', { app })).statusCode, 200, 'off, it does not end');
    await lastUsed('7 days');
    const { sid } = browser;
    const answer = await browser.get('/auth/me');
    assert.equal(answer.statusCode, 401);
    assert.ok(!browser.cookies.has('svc_auth_session'), 'its cookie is cleared');
    browser.cookies.set('svc_auth_session', sid);
    assert.equal((await browser.get('/auth/me')).statusCode, 401, 'asking is no use of it');
  });

  test('the time of last use is kept, to the minute', async () => {
    const browser = await signedIn(app);
    await sql`
    update user_auth_sessions set last_used_at = now() - interval '2 minutes'
    where id = ${browser.sid}`.execute(db);
    await browser.get('/auth/me');
    const first = (await row(browser.sid))?.last_used_at;
    assert.ok(first && Date.now() - first.getTime() < 60_000);
    await browser.get('/auth/me');
    assert.deepEqual((await row(browser.sid))?.last_used_at, first);
  });

  test('a provider that names no expiry is asked for new tokens when it refuses the old', async () => {
    provider.token.expiresIn = undefined;
    const browser = await signedIn(app);
    assert.equal((await row(browser.sid))?.expires_at, null);
    provider.expireAccessTokens();
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
    assert.equal(provider.count('token'), 1);
  });

  test('a changed key reads nothing and destroys nothing; as an earlier key it still reads', async () => {
    const key = Buffer.alloc(32, 9).toString('base64url');
    const changed = await instance({ SVC_AUTH_ENCRYPTION_KEY: key });
    const browser = await signedIn(app);
    const answer = await browser.get('/auth/me', { app: changed });
    assert.equal(answer.statusCode, 401);
    assert.deepEqual(answer.cookies, []);
    assert.notEqual(await row(browser.sid), undefined);
    assert.ok(lines.some((line) => line.includes('a session cannot be read')));

    const rotated = await instance({
      SVC_AUTH_ENCRYPTION_KEY: key,
      SVC_AUTH_ENCRYPTION_KEYS_OLD: Buffer.alloc(32, 7).toString('base64url'),
    });
    assert.equal((await browser.get('/auth/me', { app: rotated })).statusCode, 200);
    await expire(browser);
    assert.equal((await browser.get('/auth/me', { app: rotated })).statusCode, 200);
    assert.equal((await browser.get('/auth/me', { app: changed })).statusCode, 200);
  });

  test("another row's tokens cannot be moved into a session", async () => {
    const browser = await signedIn(app);
    const other = await signedIn(app);
    const stolen = await row(other.sid);
    assert.ok(stolen !== undefined);
    await db
      .updateTable('user_auth_sessions')
      .set({ access_token_enc: stolen.access_token_enc })
      .where('id', '=', browser.sid)
      .execute();
    assert.equal((await browser.get('/auth/me')).statusCode, 401);
    assert.equal(provider.count('userinfo'), 0);
    assert.equal((await other.get('/auth/me')).statusCode, 200, 'where it was it is still good');
  });

  test('rows of an older system are read as they are', async () => {
    const browser = await signedIn(app);
    const ours = await row(browser.sid);
    assert.ok(ours !== undefined);
    const { id, access_token_enc, refresh_token_enc } = ours;
    // With nothing but what an older system has to give.
    await db.deleteFrom('svc_users').execute();
    await db.insertInto('svc_users').values({ id: 'u-1', email: 'old@example.test' }).execute();
    await db
      .insertInto('user_auth_sessions')
      .values({ id, user_id: 'u-1', access_token_enc, refresh_token_enc })
      .execute();
    const me = await browser.get('/auth/me');
    assert.equal(me.statusCode, 200);
    assert.equal(me.json().email, OLENA.email);
  });

  test('a row needs no more than an older system has to give', async () => {
    const columns = await sql<{ name: string }>`
    select column_name as name from information_schema.columns
    where table_name in ('svc_users', 'user_auth_sessions')
      and is_nullable = 'NO' and column_default is null`.execute(db);
    assert.deepEqual(columns.rows.map(({ name }) => name).toSorted(), [
      'access_token_enc',
      'email',
      'id',
      'id',
      'refresh_token_enc',
      'user_id',
    ]);
  });
});

suite('user data up to an age', async () => {
  const statements: Statement[] = [];
  const aged = { IDP_USER_MAX_AGE_SECONDS: '60' };
  const app = await instance(aged, (statement) => statements.push(statement));
  const second = await instance(aged);
  const fresh = await instance({ IDP_USER_MAX_AGE_SECONDS: '0' }, (statement) =>
    statements.push(statement),
  );

  const ADMIN = {
    ...OLENA,
    client_access_list: [{ client_id: 'oselya', role_ids: ['svc_admin'], permission_ids: ['a.b'] }],
  };

  beforeEach(async () => {
    provider.reset();
    await db.deleteFrom('svc_users').execute();
  });

  const me = (browser: Browser, one = app) => browser.get('/auth/me', { app: one });
  const roleOf = async (browser: Browser, one = app) => (await me(browser, one)).json().role;
  const fetches = () => provider.count('userinfo');

  /** Lets the data of a session's user be so many seconds old. */
  async function age({ sid }: Browser, seconds: number): Promise<void> {
    await sql`
    update user_auth_sessions set user_checked_at = now() - make_interval(secs => ${seconds})
    where id = ${sid}`.execute(db);
  }

  test('what the sign-in fetched is used again, on every process', async () => {
    const browser = await signedIn(app);
    provider.user = ADMIN;
    for (const one of [app, second, app]) {
      const answer = await me(browser, one);
      assert.deepEqual(answer.json(), {
        id: 'u-1',
        email: 'olena@example.test',
        display_name: 'Олена',
        role: 'user',
        permissions: ['svc.sessions.read_own', 'svc.tools.use'],
      });
    }
    assert.equal(fetches(), 0);
  });

  test('at its age it is fetched again, once for all processes', async () => {
    const browser = await signedIn(app);
    provider.user = ADMIN;
    await age(browser, 50);
    assert.equal(await roleOf(browser), 'user');
    assert.equal(fetches(), 0);
    await age(browser, 60);
    for (const one of [second, app, second]) assert.equal(await roleOf(browser, one), 'admin');
    assert.equal(fetches(), 1);
  });

  test('it is as old as the question, not as the answer', async () => {
    const browser = await signedIn(app);
    await age(browser, 60);
    const release = provider.holdNext('userinfo');
    const answer = me(browser);
    await until(() => fetches() === 1);
    const { rows } = await sql<{ asked: Date }>`select now() as asked`.execute(db);
    release();
    await answer;
    const checkedAt = (await row(browser.sid))?.user_checked_at;
    assert.ok(checkedAt && rows[0] && checkedAt <= rows[0].asked);
  });

  test('each session has an age of its own', async () => {
    const [browser, other] = [await signedIn(app), await signedIn(app)];
    await age(browser, 60);
    await me(other);
    assert.equal(fetches(), 0);
    await me(browser);
    assert.equal(fetches(), 1);
  });

  test('a session of an older system has no such data, and fetches it', async () => {
    const browser = await signedIn(app);
    await db
      .updateTable('user_auth_sessions')
      .set({ user_checked_at: null, checked_generation: null })
      .execute();
    await me(browser);
    await me(browser);
    assert.equal(fetches(), 1);
  });

  test('with an age of 0 each request fetches, whatever others keep', async () => {
    const browser = await signedIn(app);
    for (let time = 0; time < 3; time += 1) {
      await me(browser, fresh);
      await me(browser, app);
    }
    assert.equal(fetches(), 3);
  });

  test('while it is fresh the provider may be away', async () => {
    const browser = await signedIn(app);
    provider.faults.set('userinfo', { status: 503 });
    assert.equal((await me(browser)).statusCode, 200);
    await age(browser, 60);
    assert.equal((await me(browser)).statusCode, 503);
    assert.notEqual(await row(browser.sid), undefined);
  });

  test('an expired access token is refreshed, and the user fetched with the new one', async () => {
    const browser = await signedIn(app);
    await expire(browser);
    assert.equal((await me(browser)).statusCode, 200);
    assert.deepEqual([provider.count('token'), fetches()], [1, 1]);
  });

  test('a record that makes no sense opens nothing', async () => {
    const browser = await signedIn(app);
    for (const permissions of ['', 'nonsense', '{"svc.tools.use":true}', '["svc.tools.use",1]']) {
      await db.updateTable('svc_users').set({ permissions }).execute();
      assert.deepEqual((await me(browser)).json().permissions, []);
    }
    assert.equal(fetches(), 0);
  });

  test('who signed out is out on every process, and other sessions stay', async () => {
    const [browser, other] = [await signedIn(app), await signedIn(app)];
    const cookies = { svc_auth_session: browser.sid };
    await browser.post('/auth/logout');
    for (const one of [app, second]) {
      assert.equal((await one.inject({ url: '/auth/me', cookies })).statusCode, 401);
    }
    assert.equal((await me(other)).statusCode, 200);
    assert.equal(fetches(), 0);
  });

  const setRole = (id: string, role: 'user' | 'admin') =>
    db.transaction().execute((trx) => setCachedRole(trx, id, role));
  const cachedRole = async () =>
    (await db.selectFrom('svc_users').select('role').executeTakeFirstOrThrow()).role;

  test('a role that an admin sets counts until the next fetch, which every session makes', async () => {
    const browsers = [await signedIn(app), await signedIn(app)];
    assert.equal(await setRole('u-1', 'admin'), 'user');
    assert.equal(await cachedRole(), 'admin');
    for (const browser of browsers) assert.equal(await roleOf(browser, second), 'user');
    assert.equal(fetches(), 2);
    assert.equal(await cachedRole(), 'user', 'the provider has the last word');
    for (const browser of browsers) await me(browser);
    assert.equal(fetches(), 2);
    assert.equal(await setRole('u-nobody', 'admin'), undefined);
  });

  test('a role that is set while the provider is asked is not overwritten by its answer', async () => {
    const browser = await signedIn(app);
    await age(browser, 60);
    provider.user = ADMIN;
    const release = provider.holdNext('userinfo');
    const answer = me(browser);
    await until(() => fetches() === 1);
    await setRole('u-1', 'user');
    const releaseAgain = provider.holdNext('userinfo');
    release();
    await until(() => fetches() === 2);
    assert.equal(await cachedRole(), 'user');
    provider.user = OLENA;
    releaseAgain();
    assert.equal((await answer).json().role, 'user');
    assert.equal(await roleOf(browser), 'user');
    assert.equal(fetches(), 2);
  });

  /** Lets the last use of a session be two minutes ago. */
  async function rest({ sid }: Browser): Promise<void> {
    await sql`
    update user_auth_sessions set last_used_at = now() - interval '2 minutes'
    where id = ${sid}`.execute(db);
  }

  for (const [name, one, prepare, expected] of [
    ['fresh data', app, () => undefined, ['read']],
    ['fresh data, the first time in a while', app, rest, ['read', 'write']],
    [
      'data that was fetched',
      app,
      (browser: Browser) => age(browser, 60),
      ['read', 'write', 'read'],
    ],
    [
      'data that was fetched, the first time in a while',
      app,
      (browser: Browser) => age(browser, 60).then(() => rest(browser)),
      ['read', 'write', 'read'],
    ],
    ['an age of 0', fresh, () => undefined, ['read', 'read']],
    ['an age of 0, the first time in a while', fresh, rest, ['read', 'write', 'read']],
  ] as const) {
    test(`a request with ${name} takes ${expected.length} statements where nothing changed`, async () => {
      const browser = await signedIn(app);
      await prepare(browser);
      statements.length = 0;
      assert.equal((await me(browser, one)).statusCode, 200);
      assert.deepEqual(statements, expected);
    });
  }

  test('the time of last use is not written at each request', async () => {
    const browser = await signedIn(app);
    const before = await row(browser.sid);
    for (const one of [app, second, fresh, app]) await me(browser, one);
    assert.deepEqual(await row(browser.sid), before);
    await rest(browser);
    await me(browser);
    const after = await row(browser.sid);
    assert.ok(after && before && after.last_used_at >= before.last_used_at);
    assert.deepEqual(after.user_checked_at, before?.user_checked_at);
  });

  test('also where user data is reused, a row that was changed or moved to another user is not read', async () => {
    const browser = await signedIn(app);
    assert.equal((await me(browser)).statusCode, 200);
    await db
      .insertInto('svc_users')
      .values({ id: 'u-admin', email: 'a@example.test', role: 'admin' })
      .execute();
    const before = await row(browser.sid);
    for (const change of [{ user_id: 'u-admin' }, { access_token_enc: 'x' }]) {
      await db
        .updateTable('user_auth_sessions')
        .set(change)
        .where('id', '=', browser.sid)
        .execute();
      assert.equal((await me(browser)).statusCode, 401, JSON.stringify(change));
      assert.equal((await me(browser)).statusCode, 401, 'asked again');
      assert.ok(before);
      const { user_id, access_token_enc } = before;
      await db
        .updateTable('user_auth_sessions')
        .set({ user_id, access_token_enc })
        .where('id', '=', browser.sid)
        .execute();
      assert.equal((await me(browser)).statusCode, 200, 'put right again');
    }
    assert.equal(fetches(), 0);
  });

  test('also where user data is reused, another key reads nothing', async () => {
    const other = await instance({
      SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32, 9).toString('base64url'),
    });
    const browser = await signedIn(app);
    assert.equal((await me(browser)).statusCode, 200);
    assert.equal((await me(browser, other)).statusCode, 401);
    assert.equal((await me(browser)).statusCode, 200);
  });
});

suite('metrics', async () => {
  beforeEach(() => provider.reset());

  /** The samples of an instance's metrics whose names begin so, without those of histogram buckets. */
  async function figures(app: Awaited<ReturnType<typeof instance>>, name: string) {
    const { body } = await app.inject('/metrics');
    const samples = body.split('\n').filter((line) => line.startsWith(name));
    return Object.fromEntries(
      samples
        .filter((line) => !/_(bucket|sum)\{/.test(line))
        .map((line) => {
          const space = line.lastIndexOf(' ');
          return [line.slice(name.length, space), Number(line.slice(space + 1))];
        }),
    );
  }

  test('metrics are for holders of the token, where there is one', async () => {
    const app = await instance({ METRICS_TOKEN: 'a-token-of-metrics' });
    const { cookies } = await signedIn(app);
    const request = { url: '/metrics', cookies: Object.fromEntries(cookies) };
    assert.equal((await app.inject(request)).statusCode, 401);
    const headers = { authorization: 'Bearer a-token-of-metrics' };
    assert.equal((await app.inject({ ...request, headers })).statusCode, 200);
  });

  test('sign-ins are counted by their outcome', async () => {
    const app = await instance();
    await signedIn(app);
    await app.inject('/auth/callback?state=x');
    provider.faults.set('token', { status: 400 });
    await signedIn(app);
    provider.faults.delete('token');
    provider.faults.set('userinfo', { status: 500 });
    await signedIn(app);
    assert.deepEqual(await figures(app, 'assistant_sign_ins_total'), {
      '{outcome="ok"}': 1,
      '{outcome="login_not_valid"}': 1,
      '{outcome="token_exchange_failed"}': 1,
      '{outcome="provider_unavailable"}': 1,
    });
  });

  test('refreshes are counted by their outcome, once for all who waited on one process', async () => {
    const app = await instance();
    const second = await instance();
    const browser = await signedIn(app);
    const { sid } = browser;
    await expire(browser);
    const release = provider.holdNext('token');
    const requests = [app, app, second, second].map((one) =>
      one.inject({ url: '/auth/me', cookies: { svc_auth_session: sid } }),
    );
    await until(() => provider.count('token') === 1);
    release();
    await Promise.all(requests);
    const [first, other] = [
      await figures(app, 'assistant_token_refreshes_total'),
      await figures(second, 'assistant_token_refreshes_total'),
    ];
    const both = { ...first, ...other };
    assert.equal(both['{outcome="refreshed"}'], 1);
    assert.ok((both['{outcome="waited"}'] ?? 0) <= 1);

    await expire(browser);
    provider.faults.set('token', { status: 503 });
    await browser.get('/auth/me');
    provider.faults.clear();
    provider.expireRefreshTokens();
    await browser.get('/auth/me');
    const last = await figures(app, 'assistant_token_refreshes_total');
    assert.equal(last['{outcome="unavailable"}'], 1);
    assert.equal(last['{outcome="refused"}'], 1);
  });

  test('each request to the provider is measured, by what it asked for and how it ended', async () => {
    const app = await instance();
    const browser = await signedIn(app);
    await expire(browser);
    await browser.get('/auth/me');
    provider.faults.set('revoke', { status: 500 });
    await browser.post('/auth/logout');
    const name = 'assistant_provider_request_duration_seconds_count';
    const revoked = '{operation="revoke",outcome="unavailable"}';
    await until(async () => (await figures(app, name))[revoked] === 2);
    assert.deepEqual(await figures(app, name), {
      '{operation="token",outcome="ok"}': 1,
      '{operation="userinfo",outcome="ok"}': 2,
      '{operation="refresh",outcome="ok"}': 1,
      '{operation="revoke",outcome="unavailable"}': 2,
    });
    provider.faults.clear();
    const discovering = await instance({ IDP_DISCOVERY: 'true' });
    await discovering.inject('/auth/login');
    provider.publishMetadata();
    await giveIdTokens(provider);
    await signedIn(discovering);
    assert.deepEqual(await figures(discovering, name), {
      '{operation="discovery",outcome="unavailable"}': 1,
      '{operation="discovery",outcome="ok"}': 1,
      '{operation="keys",outcome="ok"}': 1,
      '{operation="token",outcome="ok"}': 1,
      '{operation="userinfo",outcome="ok"}': 1,
    });
  });

  test('sessions that end early are counted by the reason', async () => {
    const app = await instance();
    const browser = await signedIn(app);
    await browser.signIn(provider);
    const refused = await signedIn(app);
    const own = (await browser.get('/auth/sessions'))
      .json()
      .find(({ current }: { current: boolean }) => !current);
    await browser.request('DELETE', `/auth/sessions/${own.id}`);
    assert.equal((await refused.get('/auth/me')).statusCode, 401);
    const another = await signedIn(app);
    await expire(another);
    provider.expireRefreshTokens();
    await another.get('/auth/me');
    provider.reset();
    const last = await signedIn(app);
    await last.post('/auth/logout');
    assert.deepEqual(await figures(app, 'assistant_auth_sessions_ended_total'), {
      '{reason="replaced"}': 1,
      '{reason="ended"}': 1,
      '{reason="refused"}': 1,
      '{reason="signed_out"}': 1,
    });
  });
});
