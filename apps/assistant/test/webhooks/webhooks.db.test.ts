import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { sql } from 'kysely';
import { Browser } from '../helpers/assistant.ts';
import { endEveryOtherDeletion } from '../helpers/conflicts.ts';
import { OLENA } from '../scripted-provider.ts';
import {
  hmac,
  hmacHeaders,
  openReceiver,
  post,
  SECRET,
  send,
  standardHeaders,
} from './receiver.ts';

const receiver = await openReceiver();
const { db, engine, lines, provider, app, second, instance } = receiver;
const { signInAs, signedIn, expire, ledger, audit, sessions, cached } = receiver;

const BODY = JSON.stringify({ event: 'user.blocked', user_id: 'u-1' });

const state = async () => ({ sessions: await sessions(), cached: await cached() });

const BEFORE = { sessions: ['u-1', 'u-1', 'u-2'], cached: ['u-1', 'u-2'] };
const ENDED = { sessions: ['u-2'], cached: ['u-1', 'u-2'] };
const ALL_ENDED = { sessions: [], cached: ['u-1', 'u-2'] };
const CLEARED = { sessions: ['u-1', 'u-1', 'u-2'], cached: ['u-2'] };
const ALL_CLEARED = { sessions: ['u-1', 'u-1', 'u-2'], cached: [] };

for (const [event, userId, after, action, ended] of [
  ['user.blocked', 'u-1', ENDED, 'sign_ins_ended', 2],
  ['user.archived', 'u-1', ENDED, 'sign_ins_ended', 2],
  ['user.deleted', 'u-1', ENDED, 'sign_ins_ended', 2],
  ['session.revoked', 'u-1', ENDED, 'sign_ins_ended', 2],
  ['user.blocked', 'u-nobody', BEFORE, 'sign_ins_ended', 0],
  ['auth.global_logout', null, ALL_ENDED, 'sign_ins_ended', 3],
  ['auth.global_logout', 'u-1', ALL_ENDED, 'sign_ins_ended', 3],
  ['client.roles_changed', 'u-1', CLEARED, 'access_cleared', 0],
  ['client.permissions_changed', 'u-1', CLEARED, 'access_cleared', 0],
  ['client.roles_changed', null, ALL_CLEARED, 'access_cleared', 0],
  ['client.permissions_changed', null, ALL_CLEARED, 'access_cleared', 0],
  ['user.blocked', null, BEFORE, null, 0],
  ['user.archived', null, BEFORE, null, 0],
  ['user.deleted', null, BEFORE, null, 0],
  ['session.revoked', null, BEFORE, null, 0],
  ['user.unblocked', 'u-1', BEFORE, null, 0],
  ['User.Blocked', 'u-1', BEFORE, null, 0],
  [null, 'u-1', BEFORE, null, 0],
] as const) {
  test(`${event ?? 'no event'} of ${userId ?? 'nobody'} does what the table says`, async () => {
    for (const id of ['u-1', 'u-1', 'u-2']) await signInAs(id);
    assert.deepEqual(await state(), BEFORE);
    const body = JSON.stringify({ event, user_id: userId });
    const answer = await post(app, body, standardHeaders(body, { id: 'msg_1' }));
    assert.equal(answer.statusCode, 200);
    assert.deepEqual(answer.json(), { ok: true });
    assert.deepEqual(await state(), after);

    const [row, ...more] = await ledger();
    assert.ok(row && more.length === 0);
    assert.ok(Math.abs(Date.now() - row.received_at.getTime()) < 60_000);
    assert.deepEqual(
      { ...row, id: 0, received_at: 0 },
      {
        id: 0,
        received_at: 0,
        delivery_id: 'msg_1',
        signature: 'standard',
        event,
        user_id: userId,
        outcome: action === null ? 'ignored' : 'applied',
        sessions_ended: ended,
        body_sha256: createHash('sha256').update(body).digest('hex'),
      },
    );
    const of = event === 'auth.global_logout' ? null : userId;
    const details = action === 'sign_ins_ended' ? { event, sessions: ended } : { event };
    const line = { action, actor_id: null, user_id: of, details };
    assert.deepEqual(await audit(), action === null ? [] : [line]);
  });
}

for (const [name, body] of [
  ['type for event', { type: 'user.blocked', user_id: 'u-1' }],
  ['the user under data', { type: 'user.blocked', data: { user_id: 'u-1' } }],
  ['more than is read', { event: 'user.blocked', user_id: 'u-1', client_id: 'x', at: [1, {}] }],
] as const) {
  test(`an event with ${name} is understood`, async () => {
    await signInAs('u-1');
    assert.equal((await send(app, body)).statusCode, 200);
    assert.deepEqual(await sessions(), []);
  });
}

for (const member of ['sub', 'id']) {
  for (const id of ['78', '12345678901234567890']) {
    test(`a user with the number ${id} as ${member} is one user everywhere`, async () => {
      const email = '"email":"olena@example.test"';
      const body = `{"${member}":${id},${email}}`;
      provider.faults.set('userinfo', { status: 200, body });
      const browser = await signedIn(app);
      assert.equal((await browser.get('/auth/me')).json().id, id);
      await expire(browser);
      assert.equal((await browser.get('/auth/me')).json().id, id, 'after a refresh');
      await sql`update user_auth_sessions set user_checked_at = null`.execute(db);
      provider.faults.set('userinfo', { status: 200, body: `{"sub":"${id}",${email}}` });
      assert.equal((await browser.get('/auth/me')).json().id, id, 'written as text');
      assert.deepEqual(await sessions(), [id]);
      const event = `{"event":"user.blocked","user_id":${id}}`;
      assert.equal((await post(app, event, standardHeaders(event))).statusCode, 200);
      assert.deepEqual(await sessions(), []);
    });
  }
}

test('who was signed out by a webhook is 401, on every process', async () => {
  const browser = await signInAs('u-1');
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
  await send(second, { event: 'session.revoked', user_id: 'u-1' });
  const cookies = { svc_auth_session: browser.sid };
  for (const one of [app, second]) {
    assert.equal((await one.inject({ url: '/auth/me', cookies })).statusCode, 401);
  }
});

test('an event that the database ends for the sake of another is acted on again, and once', async (t) => {
  for (const id of ['u-1', 'u-1']) await signInAs(id);
  await endEveryOtherDeletion(t, db, 'user_auth_sessions');
  assert.equal((await send(app, { event: 'user.blocked', user_id: 'u-1' })).statusCode, 200);
  assert.deepEqual(await sessions(), []);
  assert.deepEqual(
    (await ledger()).map(({ outcome, sessions_ended: ended }) => [outcome, ended]),
    [['applied', 2]],
  );
});

const hex = hmac(BODY).toString('hex');
const old = new Date(Date.now() - 3600_000);

for (const [name, headers] of [
  ['no signature', {}],
  ['a wrong signature', { 'x-webhook-signature': '0'.repeat(64) }],
  ['a signature of the wrong length', { 'x-webhook-signature': hex.slice(1) }],
  ['a signature that is not ASCII', { 'x-webhook-signature': 'é'.repeat(64) }],
  ['an old delivery', standardHeaders(BODY, { at: old })],
  ['another key', standardHeaders(BODY, { key: Buffer.from('another') })],
  ['half of the headers', { 'webhook-id': 'msg_1', 'x-webhook-signature': hex }],
] as const) {
  test(`${name} is 400, changes nothing and leaves no trace`, async () => {
    await signInAs('u-1');
    lines.length = 0;
    const answer = await post(app, BODY, headers);
    assert.equal(answer.statusCode, 400);
    assert.equal(answer.headers['content-type'], 'application/problem+json');
    assert.equal(answer.json().code, 'webhook_not_verified');
    assert.deepEqual(await sessions(), ['u-1']);
    assert.deepEqual([await ledger(), await audit()], [[], []]);
    assert.ok(lines.some((line) => line.includes('"level":"warn"') && line.includes('"reason"')));
  });
}

test('during a rotation the old secrets verify too, and no others', async () => {
  const rotating = await instance({
    IDP_WEBHOOK_SECRET: 'the next secret',
    IDP_WEBHOOK_SECRETS_OLD: `another, whsec_${Buffer.alloc(24, 7).toString('base64')}`,
  });
  const statusOf = async (headers: Record<string, string>) =>
    (await post(rotating, BODY, headers)).statusCode;
  for (const secret of ['the next secret', 'another']) {
    const bodyAlone = { 'x-webhook-signature': hmac(BODY, secret).toString('hex') };
    assert.equal(await statusOf(bodyAlone), 200, secret);
    assert.equal(await statusOf(standardHeaders(BODY, { key: Buffer.from(secret) })), 200, secret);
  }
  assert.equal(await statusOf(standardHeaders(BODY, { key: Buffer.alloc(24, 7) })), 200);
  assert.equal(await statusOf(hmacHeaders(BODY)), 400);
  assert.equal(await statusOf(standardHeaders(BODY)), 400);
});

test('where only Standard Webhooks count, an HMAC of the body is 400', async () => {
  const strict = await instance({ IDP_WEBHOOK_STANDARD_ONLY: 'true' });
  lines.length = 0;
  const answer = await post(strict, BODY, hmacHeaders(BODY));
  assert.equal(answer.json().code, 'webhook_not_verified');
  assert.ok(lines.some((line) => line.includes('"reason":"standard_webhooks_only"')));
  assert.equal((await post(strict, BODY, standardHeaders(BODY))).statusCode, 200);
});

test('without a secret every webhook is 400', async () => {
  const unset = await instance({ IDP_WEBHOOK_SECRET: '' });
  const empty = { 'x-webhook-signature': hmac(BODY, '').toString('hex') };
  for (const headers of [empty, hmacHeaders(BODY), standardHeaders(BODY)]) {
    assert.equal((await post(unset, BODY, headers)).json().code, 'webhook_not_verified');
  }
});

test('the configured header is the one that carries the HMAC', async () => {
  const own = await instance({ IDP_WEBHOOK_SIGNATURE_HEADER: 'X-Home-Signature' });
  const refused = await post(own, BODY, hmacHeaders(BODY));
  assert.deepEqual([refused.statusCode, refused.json().code], [400, 'webhook_not_verified']);
  assert.deepEqual(await ledger(), []);
  assert.equal((await post(own, BODY, { 'x-home-signature': hex })).statusCode, 200);
  assert.equal((await ledger()).length, 1);
});

for (const body of ['', '{', '[]', 'null', '"user.blocked"', '\ud800']) {
  test(`${JSON.stringify(body)} with a valid signature is 400 and says that the body is at fault`, async () => {
    for (const headers of [hmacHeaders(body), standardHeaders(body)]) {
      const answer = await post(app, body, headers);
      assert.equal(answer.statusCode, 400);
      assert.equal(answer.json().code, 'malformed_request');
      assert.match(answer.json().detail, /signature is valid/);
    }
    assert.deepEqual(await ledger(), []);
  });
}

for (const type of [
  'application/json; charset=utf-8',
  'text/plain',
  'application/x-www-form-urlencoded',
  'application/cloudevents+json',
  'image/png',
  undefined,
]) {
  test(`a body that is called ${type ?? 'nothing'} is taken as it is`, async () => {
    const answer = await app.inject({
      method: 'POST',
      url: '/webhooks/idp',
      payload: Buffer.from(BODY),
      headers: { ...hmacHeaders(BODY), ...(type && { 'content-type': type }) },
    });
    assert.equal(answer.statusCode, 200);
  });
}

test('64 KiB are taken, one byte more is 413', async () => {
  const body = BODY.padEnd(64 * 1024, ' ');
  assert.equal((await post(app, body, hmacHeaders(body))).statusCode, 200);
  const larger = `${body} `;
  assert.equal((await post(app, larger, hmacHeaders(larger))).statusCode, 413);
  assert.equal((await ledger()).length, 1);
});

test('a cookie that comes along neither helps nor hurts', async () => {
  const browser = await signInAs('u-1');
  const cookies = { svc_auth_session: browser.sid };
  const sendWith = (headers: Record<string, string>) =>
    app.inject({ method: 'POST', url: '/webhooks/idp', payload: BODY, cookies, headers });
  assert.equal((await sendWith({})).statusCode, 400);
  assert.equal((await sendWith(hmacHeaders(BODY))).statusCode, 200);
  const elsewhere = { 'sec-fetch-site': 'cross-site', origin: 'https://idp.test' };
  assert.equal((await sendWith({ ...hmacHeaders(BODY), ...elsewhere })).statusCode, 200);
});

test('headers that are sent twice are 400', async () => {
  const own = await instance();
  await own.listen({ port: 0, host: '127.0.0.1' });
  const { port } = own.server.address() as AddressInfo;
  const signed = standardHeaders(BODY);
  const twice = (headers: Record<string, string>, name: string) => {
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
    const all = { ...headers, [name]: [headers[name] ?? '', headers[name] ?? ''] };
    const sent = request(
      { port, method: 'POST', path: '/webhooks/idp', headers: all },
      (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      },
    );
    sent.on('error', reject).end(BODY);
    return promise;
  };
  assert.equal(await twice(hmacHeaders(BODY), 'x-webhook-signature'), 400);
  for (const name of Object.keys(signed)) assert.equal(await twice(signed, name), 400, name);
  assert.equal(await twice(hmacHeaders(BODY), 'x-other'), 200);
});

test('a delivery that comes again is answered and not acted on again', async () => {
  await send(app, { event: 'user.blocked', user_id: 'u-1' }, 'msg_again');
  await signInAs('u-1');
  const again = await send(second, { event: 'user.blocked', user_id: 'u-1' }, 'msg_again');
  assert.equal(again.statusCode, 200);
  assert.deepEqual(await sessions(), ['u-1']);
  assert.equal((await ledger()).length, 1);
  assert.equal((await audit()).length, 1);
  await send(second, { event: 'user.blocked', user_id: 'u-1' }, 'msg_anew');
  assert.deepEqual(await sessions(), []);
});

test('a delivery id that is not signed does not make a new delivery of an old one', async () => {
  const body = JSON.stringify({ event: 'user.blocked', user_id: 'u-1', event_id: 'evt_1' });
  const replay = (id: string) =>
    post(app, body, { ...hmacHeaders(body), 'x-delivery-id': id, 'idempotency-key': id });
  await replay('1');
  await signInAs('u-1');
  assert.equal((await replay('2')).statusCode, 200);
  assert.deepEqual(await sessions(), ['u-1']);
  assert.deepEqual(
    (await ledger()).map((row) => [row.delivery_id, row.signature]),
    [['evt_1', 'hmac']],
  );
});

test('an equal body without an id may be a new event, and is acted on again', async () => {
  for (let time = 0; time < 2; time += 1) {
    await signInAs('u-1');
    assert.equal((await post(app, BODY, hmacHeaders(BODY))).statusCode, 200);
    assert.deepEqual(await sessions(), []);
  }
  const rows = await ledger();
  assert.deepEqual(
    rows.map((row) => row.delivery_id),
    [null, null],
  );
  assert.equal(rows[0]?.body_sha256, rows[1]?.body_sha256);
});

test('of one delivery that two processes get at the same moment, one acts', async () => {
  for (let round = 0; round < 10; round += 1) {
    await signInAs('u-1');
    const event = { event: 'user.blocked', user_id: 'u-1' };
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) => send(n % 2 ? app : second, event, `msg_${round}`)),
    );
    assert.deepEqual(new Set(answers.map((answer) => answer.statusCode)), new Set([200]));
  }
  const rows = await ledger();
  assert.equal(rows.length, 10);
  assert.ok(rows.every((row) => row.sessions_ended === 1));
  assert.equal((await audit()).length, 10);
});

/** Runs an SQL statement at the first audit line that comes, and then no more. */
async function failOnce(statement: string): Promise<() => Promise<void>> {
  // Unlike a table, a sequence keeps its count when the failed statement is undone.
  await sql`create sequence failures`.execute(db);
  await sql`
    create function fail_once() returns trigger language plpgsql as $$
    begin
      if nextval('failures') = 1 then ${sql.raw(statement)}; end if;
      return new;
    end $$`.execute(db);
  await sql`
    create trigger fail_once before insert on audit_log
    for each row execute function fail_once()`.execute(db);
  return async () => {
    await sql`drop function fail_once cascade`.execute(db);
    await sql`drop sequence failures`.execute(db);
  };
}

for (const [name, statement, status] of [
  ['a failure', "raise exception 'the disk is full'", 500],
  // The embedded database has no server to lose.
  ...(engine === 'postgres'
    ? ([
        ['a database that is away', 'perform pg_terminate_backend(pg_backend_pid())', 503],
      ] as const)
    : []),
] as const) {
  test(`${name} is ${status} and undoes everything: the delivery that is repeated is acted on`, async (context) => {
    await signInAs('u-1');
    const mend = await failOnce(statement);
    context.after(mend);
    const failed = await send(app, { event: 'user.blocked', user_id: 'u-1' }, 'msg_1');
    assert.equal(failed.statusCode, status);
    assert.deepEqual(await sessions(), ['u-1']);
    assert.deepEqual([await ledger(), await audit()], [[], []]);
    const repeated = await send(app, { event: 'user.blocked', user_id: 'u-1' }, 'msg_1');
    assert.equal(repeated.statusCode, 200);
    assert.deepEqual(await sessions(), []);
    assert.equal((await ledger()).length, 1);
  });
}

test('webhooks are counted by event and outcome, and measured as requests', async () => {
  const own = await instance();
  await send(own, { event: 'user.blocked', user_id: 'u-1' }, 'msg_1');
  await send(own, { event: 'user.blocked', user_id: 'u-1' }, 'msg_1');
  await send(own, { event: 'user.blocked' });
  await send(own, { event: 'session.revoked', user_id: { id: 'u-1' } });
  await send(own, { event: 'made up', user_id: 'u-1' });
  await send(own, {});
  await post(own, BODY, {});
  await post(own, '{', hmacHeaders('{'));
  const { body: metrics } = await own.inject('/metrics');
  const counts = metrics.split('\n').filter((line) => line.startsWith('assistant_webhooks_total{'));
  assert.deepEqual(counts.toSorted(), [
    'assistant_webhooks_total{event="other",outcome="ignored"} 2',
    'assistant_webhooks_total{event="other",outcome="refused"} 2',
    'assistant_webhooks_total{event="session.revoked",outcome="user_missing"} 1',
    'assistant_webhooks_total{event="user.blocked",outcome="applied"} 1',
    'assistant_webhooks_total{event="user.blocked",outcome="duplicate"} 1',
    'assistant_webhooks_total{event="user.blocked",outcome="user_missing"} 1',
  ]);
  assert.match(
    metrics,
    /http_request_duration_seconds_count\{method="POST",route="\/webhooks\/idp",status="200"\} 6/,
  );
});

test('a revocation whose user cannot be read is a warning, other events without one are not', async () => {
  lines.length = 0;
  for (const event of ['user.blocked', 'user.archived', 'user.deleted', 'session.revoked']) {
    await send(app, { event, user_id: '' });
  }
  await send(app, { event: 'user.renamed' });
  await send(app, { event: 'client.roles_changed' });
  const logged = lines
    .map((line): Record<string, unknown> => JSON.parse(line))
    .filter(({ outcome }) => outcome !== undefined)
    .map(({ level, event, outcome }) => [level, event, outcome]);
  assert.deepEqual(logged, [
    ['warn', 'user.blocked', 'user_missing'],
    ['warn', 'user.archived', 'user_missing'],
    ['warn', 'user.deleted', 'user_missing'],
    ['warn', 'session.revoked', 'user_missing'],
    ['info', 'other', 'ignored'],
    ['info', 'client.roles_changed', 'applied'],
  ]);
});

test('neither bodies nor signatures nor the secret are in the log', async () => {
  lines.length = 0;
  const body = JSON.stringify({ event: 'confidential', user_id: 'u-1', note: 'confidential' });
  const standard = standardHeaders(body, { id: 'msg_1' });
  const bodyAlone = hmacHeaders(body);
  await post(app, body, standard);
  await post(app, body, bodyAlone);
  await post(app, `${body} `, standard);
  await post(app, `${body} `, bodyAlone);
  await post(app, 'confidential', hmacHeaders('confidential'));
  const log = lines.join('');
  assert.match(log, /a webhook was accepted/);
  assert.match(log, /signature_wrong/);
  assert.match(log, /body_malformed/);
  const secrets = [
    'confidential',
    standard['webhook-signature'],
    ...Object.values(bodyAlone),
    ...Object.values(hmacHeaders('confidential')),
    SECRET,
  ];
  for (const secret of secrets) assert.ok(!log.includes(secret), secret);
});

async function admin(): Promise<Browser> {
  provider.user = {
    ...OLENA,
    sub: 'u-admin',
    client_access_list: [{ client_id: 'oselya', role_ids: ['svc_admin'], permission_ids: [] }],
  };
  const browser = new Browser(app);
  await browser.signIn(provider);
  return browser;
}

type Row = { id: number; delivery_id: string };

/** Goes through all pages as a client does, by their links. */
async function pages(browser: Browser, first: string): Promise<Row[][]> {
  const all: Row[][] = [];
  let next: string | undefined = first;
  while (next !== undefined) {
    const answer = await browser.get(next);
    assert.equal(answer.statusCode, 200);
    all.push(answer.json());
    next = /^<(.+)>; rel="next"$/.exec(String(answer.headers['link']))?.[1];
  }
  return all;
}

test('admins read the ledger, newest first', async () => {
  const browser = await admin();
  await send(app, { event: 'user.blocked', user_id: 'u-7' }, 'msg_1');
  await send(app, { user_id: 'u-7' }, 'msg_2');
  const [newer, older] = (await browser.get('/admin/webhooks')).json();
  assert.match(older.received_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.match(older.body_sha256, /^[0-9a-f]{64}$/);
  assert.deepEqual(older, {
    id: older.id,
    received_at: older.received_at,
    delivery_id: 'msg_1',
    signature: 'standard',
    event: 'user.blocked',
    user_id: 'u-7',
    outcome: 'applied',
    sessions_ended: 0,
    body_sha256: older.body_sha256,
  });
  assert.deepEqual([newer.delivery_id, newer.event, newer.outcome], ['msg_2', null, 'ignored']);
});

test('the pages hold every row once, while new ones come in', async () => {
  const browser = await admin();
  for (let n = 1; n <= 7; n += 1) await send(app, { event: 'any' }, `msg_${n}`);
  const [first = [], ...rest] = await pages(browser, '/admin/webhooks?limit=3');
  await send(app, { event: 'any' }, 'msg_8');
  assert.deepEqual(
    [first, ...rest].map((page) => page.map((row) => row.delivery_id)),
    [['msg_7', 'msg_6', 'msg_5'], ['msg_4', 'msg_3', 'msg_2'], ['msg_1']],
  );
  assert.equal((await browser.get('/admin/webhooks')).headers['link'], undefined);
});

for (const query of ['cursor=x', 'cursor=MA', 'cursor=ImEi', 'limit=0', 'limit=201', 'limit=x']) {
  test(`the query ${query} is 422`, async () => {
    const browser = await admin();
    assert.equal((await browser.get(`/admin/webhooks?${query}`)).statusCode, 422);
  });
}

const USERS = 10;
const users = Array.from({ length: USERS }, (_, n) => `u-${n}`);

/** For each user: a block, twice; cleared roles; an event that changes nothing; one without an id. */
function deliveries(user: string) {
  const blocked = { event: 'user.blocked', user_id: user };
  const unsigned = JSON.stringify({ event: 'session.revoked', user_id: user });
  return [
    () => send(app, blocked, `${user}-blocked`),
    () => send(second, blocked, `${user}-blocked`),
    () => send(app, { event: 'client.roles_changed', user_id: user }, `${user}-roles`),
    () => send(second, { event: 'client.permissions_changed' }, `${user}-permissions`),
    () => send(app, { event: 'user.updated', user_id: user }, `${user}-updated`),
    () => post(second, unsigned, hmacHeaders(unsigned)),
    () => post(app, unsigned, hmacHeaders(unsigned)),
  ];
}

test('a storm of webhooks over two processes is taken as exactly what it is', async () => {
  const browsers = [];
  for (const user of users) browsers.push(await signInAs(user), await signInAs(user));
  assert.equal((await sessions()).length, 2 * USERS);

  const storm = users.flatMap(deliveries).concat(
    // Several logouts of everybody in between, each with an id of its own.
    Array.from(
      { length: 30 },
      (_, n) => () =>
        send(
          n % 2 ? app : second,
          { event: n % 3 ? 'user.created' : 'auth.global_logout' },
          `g-${n}`,
        ),
    ),
  );
  const reads = browsers.map(
    ({ sid }, n) =>
      () =>
        (n % 2 ? app : second).inject({ url: '/auth/me', cookies: { svc_auth_session: sid } }),
  );
  const [answers, seen] = await Promise.all([
    Promise.all(storm.map((deliver) => deliver())),
    Promise.all(reads.map((read) => read())),
  ]);

  assert.equal(answers.length, 7 * USERS + 30);
  assert.deepEqual(new Set(answers.map((answer) => answer.statusCode)), new Set([200]));
  for (const { statusCode } of seen) assert.ok(statusCode === 200 || statusCode === 401);

  const rows = await ledger();
  const count = (event: string) => rows.filter((row) => row.event === event).length;
  assert.deepEqual(
    {
      blocked: count('user.blocked'),
      roles: count('client.roles_changed'),
      permissions: count('client.permissions_changed'),
      updated: count('user.updated'),
      revoked: count('session.revoked'),
      created: count('user.created'),
      logouts: count('auth.global_logout'),
    },
    {
      blocked: USERS,
      roles: USERS,
      permissions: USERS,
      updated: USERS,
      revoked: 2 * USERS,
      created: 20,
      logouts: 10,
    },
  );
  const ended = rows.reduce((sum, row) => sum + row.sessions_ended, 0);
  assert.equal(ended, 2 * USERS, 'each session was ended by one of them');
  assert.equal((await audit()).length, rows.filter((row) => row.outcome === 'applied').length);

  assert.deepEqual(await sessions(), []);
  for (const read of reads) assert.equal((await read()).statusCode, 401);
  const cleared = await db
    .selectFrom('svc_users')
    .select('access_generation')
    .where('id', 'in', users)
    .execute();
  assert.deepEqual(
    cleared.map((row) => row.access_generation),
    users.map(() => USERS + 1),
    'once by its own event, and once by each that was for everybody',
  );
});
