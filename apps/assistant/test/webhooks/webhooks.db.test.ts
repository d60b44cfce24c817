import assert from 'node:assert/strict';
import { hash, randomBytes } from 'node:crypto';
import { beforeEach, test } from 'node:test';
import { until } from '@oselya/testing';
import { sql } from 'kysely';
import { parseEvent } from '../../src/webhooks/events.ts';
import { createVerifier } from '../../src/webhooks/signature.ts';
import { Browser, failEverySecondDeletion, openAssistant } from '../helpers/assistant.ts';
import { getNextUrl, pages, createPerson } from '../helpers/people.ts';
import { OLENA } from '../scripted-provider.ts';
import {
  computeHmac,
  createHmacHeaders,
  post,
  SECRET,
  send,
  createStandardHeaders,
} from './signing.ts';

const assistant = await openAssistant({
  IDP_WEBHOOK_SECRET: SECRET,
  IDP_USER_MAX_AGE_SECONDS: '60',
});
const { db, engine, lines, provider, createInstance, signInUser, findAuthSession, expireToken } =
  assistant;
const app = await createInstance();
const secondApp = await createInstance();

const REVOKED = { event: 'session.revoked', user_id: 'u-1' };
const BLOCKED = { event: 'user.blocked', user_id: 'u-1' };
const BODY = JSON.stringify(BLOCKED);
const hex = computeHmac(BODY).toString('hex');

beforeEach(async () => {
  provider.reset();
  lines.length = 0;
  for (const table of ['svc_users', 'webhook_events', 'audit_log'] as const) {
    await db.deleteFrom(table).execute();
  }
});

const signInAs = (id: string) => signInUser(app, { ...OLENA, sub: id });
const listLedgerRows = () => db.selectFrom('webhook_events').selectAll().orderBy('id').execute();

/** Returns the audit trail without the sign-ins. */
const listAuditEntries = () =>
  db
    .selectFrom('audit_log')
    .select(['action', 'actor_id', 'user_id', 'details'])
    .where('action', '<>', 'signed_in')
    .orderBy('id')
    .execute();

async function listSessionUsers(): Promise<string[]> {
  const rows = await db.selectFrom('user_auth_sessions').select('user_id').execute();
  return rows.map(({ user_id }) => user_id).toSorted();
}

/** Returns the users whose permissions are cached. */
async function listCachedUsers(): Promise<string[]> {
  const users = db.selectFrom('svc_users').select('id').where('permissions', '<>', '[]');
  return (await users.execute()).map(({ id }) => id).toSorted();
}

const UNCHANGED_ROWS = { sessions: ['u-1', 'u-1', 'u-2'], cached: ['u-1', 'u-2'] };
const ENDED_ROWS = { ...UNCHANGED_ROWS, sessions: ['u-2'] };
const ALL_ENDED_ROWS = { ...UNCHANGED_ROWS, sessions: [] };
const CLEARED_ROWS = { ...UNCHANGED_ROWS, cached: ['u-2'] };
const ALL_CLEARED_ROWS = { ...UNCHANGED_ROWS, cached: [] };

for (const [event, userId, expectedRows, action, endedCount] of [
  ['user.blocked', 'u-1', ENDED_ROWS, 'sign_ins_ended', 2],
  ['user.archived', 'u-1', ENDED_ROWS, 'sign_ins_ended', 2],
  ['user.deleted', 'u-1', ENDED_ROWS, 'sign_ins_ended', 2],
  ['session.revoked', 'u-1', ENDED_ROWS, 'sign_ins_ended', 2],
  ['user.blocked', 'u-unknown', UNCHANGED_ROWS, 'sign_ins_ended', 0],
  ['auth.global_logout', null, ALL_ENDED_ROWS, 'sign_ins_ended', 3],
  ['client.roles_changed', 'u-1', CLEARED_ROWS, 'access_cleared', 0],
  ['client.permissions_changed', null, ALL_CLEARED_ROWS, 'access_cleared', 0],
  ['user.deleted', null, UNCHANGED_ROWS, null, 0],
  ['user.unblocked', 'u-1', UNCHANGED_ROWS, null, 0],
  [null, 'u-1', UNCHANGED_ROWS, null, 0],
] as const) {
  test(`${event ?? 'no event'} of ${userId ?? 'no user'} changes sessions and caches as specified`, async () => {
    for (const id of ['u-1', 'u-1', 'u-2']) await signInAs(id);
    const body = JSON.stringify({ event, user_id: userId });
    const response = await post(app, body, createStandardHeaders(body, { id: 'msg_1' }));
    assert.deepEqual([response.statusCode, response.json()], [200, { ok: true }]);
    assert.deepEqual(
      { sessions: await listSessionUsers(), cached: await listCachedUsers() },
      expectedRows,
    );
    const ledgerRow = {
      delivery_id: 'msg_1',
      signature: 'standard',
      event,
      user_id: userId,
      outcome: action === null ? 'ignored' : 'applied',
      sessions_ended: endedCount,
      body_sha256: hash('sha256', body),
    };
    const rows = await listLedgerRows();
    const [{ id, received_at } = assert.fail()] = rows;
    assert.deepEqual(rows, [{ ...ledgerRow, id, received_at }]);
    const details = action === 'sign_ins_ended' ? { event, sessions: endedCount } : { event };
    const auditEntry = { action, actor_id: null, user_id: userId, details };
    assert.deepEqual(await listAuditEntries(), action === null ? [] : [auditEntry]);
  });
}

test('A numeric user id is the same user at sign-in, at a refresh and in events', async () => {
  for (const [member, id] of [
    ['sub', '78'],
    ['id', '12345678901234567890'],
  ] as const) {
    const body = `{"${member}":${id},"email":"olena@example.test"}`;
    provider.faults.set('userinfo', { status: 200, body });
    const browser = await signInUser(app);
    await expireToken(browser);
    assert.equal((await browser.get('/auth/me')).json().id, id);
    const event = `{"type":"user.blocked","data":{"user_id":${id}}}`;
    assert.equal((await post(app, event, createStandardHeaders(event))).statusCode, 200);
    assert.deepEqual(await listSessionUsers(), []);
  }
});

test('An event is applied once after a deadlock', async (t) => {
  for (const id of ['u-1', 'u-1']) await signInAs(id);
  await failEverySecondDeletion(t, db, 'user_auth_sessions');
  assert.equal((await send(app, BLOCKED)).statusCode, 200);
  assert.deepEqual(await listSessionUsers(), []);
  const rows = await listLedgerRows();
  assert.deepEqual(
    rows.map(({ outcome, sessions_ended }) => [outcome, sessions_ended]),
    [['applied', 2]],
  );
});

const STANDARD_ONLY = { IDP_WEBHOOK_STANDARD_ONLY: 'true' };

for (const [name, headers, settings] of [
  ['a wrong signature', { 'x-webhook-signature': '0'.repeat(64) }, {}],
  ['an HMAC where only Standard Webhooks are accepted', createHmacHeaders(BODY), STANDARD_ONLY],
  ['a signature where no secret is set', createHmacHeaders(BODY), { IDP_WEBHOOK_SECRET: '' }],
  [
    'the HMAC in another header',
    createHmacHeaders(BODY),
    { IDP_WEBHOOK_SIGNATURE_HEADER: 'X-Home' },
  ],
] as const) {
  test(`A webhook with ${name} is rejected without effect`, async () => {
    const receiver = Object.keys(settings).length === 0 ? app : await createInstance(settings);
    await signInAs('u-1');
    lines.length = 0;
    const response = await post(receiver, BODY, headers);
    assert.equal(response.statusCode, 400);
    assert.equal(response.headers['content-type'], 'application/problem+json');
    assert.equal(response.json().code, 'webhook_not_verified');
    assert.deepEqual(await listSessionUsers(), ['u-1']);
    assert.deepEqual([await listLedgerRows(), await listAuditEntries()], [[], []]);
    assert.ok(lines.some((line) => line.includes('"level":"warn"') && line.includes('"reason"')));
  });
}

test('During a rotation the old secrets are accepted too, and no others', async () => {
  const rotationApp = await createInstance({
    IDP_WEBHOOK_SECRET: 'the next secret',
    IDP_WEBHOOK_SECRETS_OLD: `another, whsec_${Buffer.alloc(24, 7).toString('base64')}`,
  });
  for (const [headers, status] of [
    [{ 'x-webhook-signature': computeHmac(BODY, 'the next secret').toString('hex') }, 200],
    [{ 'x-webhook-signature': computeHmac(BODY, 'another').toString('hex') }, 200],
    [createStandardHeaders(BODY, { key: Buffer.from('another') }), 200],
    [createStandardHeaders(BODY, { key: Buffer.alloc(24, 7) }), 200],
    [createHmacHeaders(BODY), 400],
    [createStandardHeaders(BODY), 400],
  ] as const) {
    const response = await post(rotationApp, BODY, headers);
    assert.equal(response.statusCode, status, JSON.stringify(headers));
  }
});

test('A signed body that is not a JSON object is rejected with a reason', async () => {
  const nestedEvent = `{"data":${'['.repeat(30_000)}${']'.repeat(30_000)}}`;
  const invalidUtf8 = Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]);
  for (const text of ['', '{', '[]', '[{"event":"a"}]', 'null', '"a"', nestedEvent, invalidUtf8]) {
    const body = Buffer.from(text);
    const response = await post(app, body, createHmacHeaders(body));
    assert.deepEqual([response.statusCode, response.json().code], [400, 'malformed_request']);
    assert.match(response.json().detail, /signature is valid/);
  }
  assert.deepEqual(await listLedgerRows(), []);
});

test('Bodies of any content type are accepted, up to 64 KiB', async () => {
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'image/png']) {
    const headers = { ...createHmacHeaders(BODY), 'content-type': type };
    assert.equal((await post(app, BODY, headers)).statusCode, 200, type);
  }
  for (const [bytes, status] of [
    [64 * 1024, 200],
    [64 * 1024 + 1, 413],
  ] as const) {
    const body = BODY.padEnd(bytes, ' ');
    assert.equal((await post(app, body, createHmacHeaders(body))).statusCode, status);
  }
});

test('A session cookie and the origin of a webhook have no effect', async () => {
  const cookie = `svc_auth_session=${(await signInAs('u-1')).sid}`;
  assert.equal((await post(app, BODY, { cookie })).statusCode, 400);
  const headers = { ...createHmacHeaders(BODY), 'sec-fetch-site': 'cross-site', cookie };
  assert.equal((await post(app, BODY, headers)).statusCode, 200);
});

test('A repeated delivery is answered and has no effect', async () => {
  await send(app, BLOCKED, 'msg_again');
  await signInAs('u-1');
  assert.equal((await send(secondApp, BLOCKED, 'msg_again')).statusCode, 200);
  assert.deepEqual(await listSessionUsers(), ['u-1']);
  assert.deepEqual([(await listLedgerRows()).length, (await listAuditEntries()).length], [1, 1]);
  await send(secondApp, BLOCKED, 'msg_anew');
  assert.deepEqual(await listSessionUsers(), []);
});

test('An unsigned delivery id does not make a repeated delivery a new one', async () => {
  const body = JSON.stringify({ ...BLOCKED, event_id: 'evt_1' });
  const replay = (id: string) =>
    post(app, body, { ...createHmacHeaders(body), 'x-delivery-id': id, 'idempotency-key': id });
  await replay('1');
  await signInAs('u-1');
  assert.equal((await replay('2')).statusCode, 200);
  assert.deepEqual(await listSessionUsers(), ['u-1']);
  const rows = await listLedgerRows();
  assert.deepEqual(
    rows.map(({ delivery_id, signature }) => [delivery_id, signature]),
    [['evt_1', 'hmac']],
  );
});

/**
 * Makes the first insertion of an audit entry run an SQL statement. Returns a function that removes the trigger.
 */
async function failOnce(statement: string): Promise<() => Promise<void>> {
  // A sequence keeps its count after a rollback, so the retry does not fail.
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

const failures: [name: string, statement: string, status: number][] = [
  ['fails', "raise exception 'the disk is full'", 500],
];
if (engine === 'postgres') {
  failures.push(['loses the database', 'perform pg_terminate_backend(pg_backend_pid())', 503]);
}
for (const [name, statement, status] of failures) {
  test(`An event that ${name} changes nothing, and its next delivery is applied`, async (t) => {
    await signInAs('u-1');
    t.after(await failOnce(statement));
    assert.equal((await send(app, BLOCKED, 'msg_1')).statusCode, status);
    assert.deepEqual(await listSessionUsers(), ['u-1']);
    assert.deepEqual([await listLedgerRows(), await listAuditEntries()], [[], []]);
    assert.equal((await send(app, BLOCKED, 'msg_1')).statusCode, 200);
    assert.deepEqual(await listSessionUsers(), []);
    assert.equal((await listLedgerRows()).length, 1);
  });
}

test('Webhooks are counted by event and outcome, and a revocation without a user is a warning', async () => {
  const freshApp = await createInstance();
  lines.length = 0;
  await send(freshApp, BLOCKED, 'msg_1');
  await send(freshApp, BLOCKED, 'msg_1');
  await send(freshApp, { event: 'session.revoked', user_id: { id: 'u-1' } });
  await send(freshApp, { event: 'made up', user_id: 'u-1' });
  await post(freshApp, BODY, {});
  await post(freshApp, '{', createHmacHeaders('{'));
  const { body: metrics } = await freshApp.inject('/metrics');
  const counts = metrics.split('\n').filter((line) => line.startsWith('assistant_webhooks_total{'));
  assert.deepEqual(counts.toSorted(), [
    'assistant_webhooks_total{event="other",outcome="ignored"} 1',
    'assistant_webhooks_total{event="other",outcome="refused"} 2',
    'assistant_webhooks_total{event="session.revoked",outcome="user_missing"} 1',
    'assistant_webhooks_total{event="user.blocked",outcome="applied"} 1',
    'assistant_webhooks_total{event="user.blocked",outcome="duplicate"} 1',
  ]);
  const logEntries = lines
    .map((line): Record<string, unknown> => JSON.parse(line))
    .filter(({ outcome }) => outcome !== undefined)
    .map(({ level, event, outcome }) => [level, event, outcome]);
  assert.deepEqual(logEntries, [
    ['info', 'user.blocked', 'applied'],
    ['info', 'user.blocked', 'duplicate'],
    ['warn', 'session.revoked', 'user_missing'],
    ['info', 'other', 'ignored'],
  ]);
});

test('Bodies, signatures and the secret are not logged', async () => {
  const body = JSON.stringify({ ...BLOCKED, event: 'confidential', note: 'confidential' });
  const standard = createStandardHeaders(body, { id: 'msg_1' });
  await post(app, body, standard);
  await post(app, body, createHmacHeaders(body));
  await post(app, `${body} `, standard);
  await post(app, 'confidential', createHmacHeaders('confidential'));
  const log = lines.join('');
  for (const message of ['a webhook was accepted', 'signature_wrong', 'body_malformed']) {
    assert.ok(log.includes(message), message);
  }
  for (const secret of [
    'confidential',
    SECRET,
    standard['webhook-signature'],
    ...Object.values(createHmacHeaders(body)),
    ...Object.values(createHmacHeaders('confidential')),
  ]) {
    assert.ok(!log.includes(secret), secret);
  }
});

test('Admins read the ledger in pages, newest first', async () => {
  const browser = await signInUser(app, createPerson('u-admin', { isAdmin: true }));
  for (let n = 1; n <= 3; n += 1) await send(app, { event: 'any' }, `msg_${n}`);
  const firstPage = await browser.get('/admin/webhooks?limit=2');
  // A new event does not shift the next page.
  await send(app, { event: 'any' }, 'msg_4');
  const nextPages = await pages(browser, getNextUrl(firstPage) ?? assert.fail());
  const ids = [firstPage, ...nextPages].map((page) =>
    page.json().map(({ delivery_id }: { delivery_id: string }) => delivery_id),
  );
  assert.deepEqual(ids, [['msg_3', 'msg_2'], ['msg_1']]);
  assert.match(firstPage.json()[0].received_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  for (const query of ['cursor=x', 'cursor=ImEi', 'limit=0', 'limit=201']) {
    assert.equal((await browser.get(`/admin/webhooks?${query}`)).statusCode, 422, query);
  }
});

test('Concurrent webhooks at two processes are each applied once', async () => {
  const users = Array.from({ length: 10 }, (_, n) => `u-${n}`);
  for (const user of users) await signInAs(user);
  const deliveries = users.flatMap((user) => [
    ...[app, secondApp, app].map(
      (at) => () => send(at, { event: 'user.blocked', user_id: user }, `${user}-blocked`),
    ),
    () => send(secondApp, { event: 'client.permissions_changed' }, `${user}-permissions`),
    () => send(app, { event: 'auth.global_logout' }, `${user}-logout`),
    () => send(secondApp, { event: 'user.updated', user_id: user }, `${user}-updated`),
  ]);
  const responses = await Promise.all(deliveries.map((deliver) => deliver()));
  assert.deepEqual([...new Set(responses.map(({ statusCode }) => statusCode))], [200]);
  const rows = await listLedgerRows();
  assert.equal(rows.length, 4 * users.length);
  assert.equal(
    rows.reduce((sum, { sessions_ended: endedCount }) => sum + endedCount, 0),
    users.length,
  );
  assert.equal((await listAuditEntries()).length, 3 * users.length);
  assert.deepEqual(await listSessionUsers(), []);
  const generations = await db.selectFrom('svc_users').select('access_generation').execute();
  assert.deepEqual(
    generations.map((user) => user.access_generation),
    users.map(() => users.length),
  );
});

for (const [endpoint, event, hasSignedIn, status] of [
  ['token', REVOKED, true, 400],
  ['userinfo', REVOKED, false, 400],
  ['token', { event: 'auth.global_logout' }, false, 400],
  ['userinfo', BLOCKED, true, 400],
  ['userinfo', { event: 'user.blocked', user_id: 'u-2' }, true, 302],
] as const) {
  const ownerText = 'user_id' in event ? ` of ${event.user_id}` : '';
  const name = `${event.event}${ownerText} responds with ${status} to a sign-in that waits for ${endpoint}`;
  test(`${name}${hasSignedIn ? '' : ' for the first time'}`, async () => {
    if (hasSignedIn) await signInUser(app);
    const earlierCount = (await listSessionUsers()).length;
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    provider.calls.length = 0;
    const release = provider.holdNext(endpoint);
    const responsePromise = browser.get(callback);
    await until(() => provider.count(endpoint) === 1);
    assert.equal((await send(secondApp, event)).statusCode, 200);
    release();
    assert.equal((await responsePromise).statusCode, status);
    assert.equal((await listSessionUsers()).length, status === 302 ? earlierCount + 1 : 0);
    if (status === 302) return;
    assert.equal((await responsePromise).json().code, 'login_refused');
    assert.ok(!browser.cookies.has('svc_auth_session'));
    assert.equal((await browser.signIn(provider)).statusCode, 302);
  });
}

test('A revocation during a refresh ends the session', async () => {
  const browser = await signInUser(app);
  const { sid } = browser;
  await expireToken(browser);
  const release = provider.holdNext('token');
  const responsePromises = [app, app, secondApp].map((server) =>
    server.inject({ url: '/auth/me', cookies: { svc_auth_session: sid } }),
  );
  await until(() => provider.count('token') === 1);
  assert.equal((await send(secondApp, REVOKED)).statusCode, 200);
  release();
  for (const response of await Promise.all(responsePromises))
    assert.equal(response.statusCode, 401);
  assert.equal(await findAuthSession(sid), undefined);
  assert.equal(provider.count('token'), 1);
});

const NOW = new Date('2026-11-21T08:30:00.900Z');
const HMAC_SIGNATURE = { form: 'hmac', deliveryId: null };
const STANDARD_SIGNATURE = { form: 'standard', deliveryId: 'msg_1' };
const WRONG_SIGNATURE = { rejection: 'signature_wrong' };

type Headers = Record<string, string | string[] | undefined>;

function verify(
  headers: Headers,
  { body = BODY, secret = SECRET, signatureHeader = 'X-Webhook-Signature' } = {},
) {
  const verifier = createVerifier({ secret, signatureHeader, now: () => NOW.getTime() });
  return verifier(headers, Buffer.from(body));
}

const createBodyHeaders = (value: string | string[]) => ({ 'x-webhook-signature': value });
const signWithKey = (key: Buffer) => createStandardHeaders(BODY, { id: 'msg_1', sentAt: NOW, key });

const base64 = computeHmac(BODY).toString('base64');
const base64url = computeHmac(BODY).toString('base64url');
const signedHeaders = signWithKey(Buffer.from(SECRET));
const [, v1 = ''] = signedHeaders['webhook-signature'].split(',');
const otherSignature = computeHmac('other').toString('base64');

test('An HMAC of the body is verified in hex and base64', () => {
  const encodedSignatures = [hex, hex.toUpperCase(), base64, base64.replace('=', ''), base64url];
  for (const text of encodedSignatures) {
    for (const value of [text, `sha256=${text}`, `SHA256=${text}`]) {
      const headers = createBodyHeaders(value);
      assert.deepEqual(verify(headers), HMAC_SIGNATURE, value);
      assert.deepEqual(verify(headers, { body: `${BODY} ` }), WRONG_SIGNATURE, value);
    }
  }
});

test('Text of another algorithm, length or alphabet, or a list, is a malformed signature', () => {
  const values = ['', `sha512=${hex}`, hex.slice(2), 'ї'.repeat(64), `${hex}, ${hex}`, [hex]];
  for (const value of values) {
    assert.deepEqual(verify(createBodyHeaders(value)), { rejection: 'signature_malformed' });
  }
});

test('A delivery without a signature is rejected, as is any delivery without a secret', () => {
  assert.deepEqual(verify({}), { rejection: 'signature_missing' });
  for (const headers of [
    createBodyHeaders(computeHmac(BODY, '').toString('hex')),
    createBodyHeaders(hex),
    signedHeaders,
  ]) {
    assert.deepEqual(verify(headers, { secret: '' }), { rejection: 'secret_not_set' });
  }
});

test('The header of the HMAC has the configured name, even a name of Standard Webhooks', () => {
  const signatureHeader = 'X-Hub-Signature-256';
  const headers = { 'x-hub-signature-256': `sha256=${hex}` };
  assert.deepEqual(verify(headers, { signatureHeader }), HMAC_SIGNATURE);
  assert.deepEqual(verify(createBodyHeaders(hex), { signatureHeader }), {
    rejection: 'signature_missing',
  });
  const sharedHeaderOptions = { signatureHeader: 'webhook-signature' };
  assert.deepEqual(verify({ 'webhook-signature': hex }, sharedHeaderOptions), HMAC_SIGNATURE);
  assert.deepEqual(verify(signedHeaders, sharedHeaderOptions), STANDARD_SIGNATURE);
});

test('One valid signature of version 1 in the list suffices', () => {
  for (const signatures of [
    `v1,${v1}`,
    `v1,${v1.replace('=', '')}`,
    `v1,${otherSignature} v1,${v1}`,
    `v1a,c2ln v2,${v1} v1,${v1} v1,c2ln`,
  ]) {
    const headers = { ...signedHeaders, 'webhook-signature': signatures };
    assert.deepEqual(verify(headers), STANDARD_SIGNATURE, signatures);
  }
});

test('Changed headers of Standard Webhooks are rejected with a reason', () => {
  const cases: [headers: Headers, rejection: string][] = [
    [{ 'webhook-id': undefined }, 'signature_missing'],
    [{ 'webhook-id': 'msg_2' }, 'signature_wrong'],
    [{ 'webhook-id': 'msg_1, msg_1' }, 'signature_malformed'],
    [{ 'webhook-timestamp': '1795249801' }, 'signature_wrong'],
    [{ 'webhook-signature': `v1,${hex}` }, 'signature_wrong'],
    [{ 'webhook-signature': v1 }, 'signature_malformed'],
    [{ 'webhook-signature': `v1a,${v1}` }, 'signature_wrong'],
  ];
  for (const [headers, rejection] of cases) {
    assert.deepEqual(verify({ ...signedHeaders, ...headers }), { rejection });
  }
});

test('A delivery of Standard Webhooks is accepted within five minutes', () => {
  for (const [seconds, expected] of [
    [-301, { rejection: 'timestamp_out_of_tolerance' }],
    [-300, STANDARD_SIGNATURE],
    [300, STANDARD_SIGNATURE],
    [301, { rejection: 'timestamp_out_of_tolerance' }],
  ] as const) {
    const sentAt = new Date(NOW.getTime() + seconds * 1000);
    assert.deepEqual(verify(createStandardHeaders(BODY, { id: 'msg_1', sentAt })), expected);
  }
});

test('A secret with the prefix whsec_ is base64; any other is a text or base64 of 24 bytes', () => {
  const key = randomBytes(24);
  const [longKey, shortKey] = [Buffer.alloc(32, 0xfb), Buffer.alloc(23, 1)];
  const text = Buffer.from('whsec_no base64');
  for (const [secret, signingKey, expected] of [
    [`whsec_${key.toString('base64')}`, key, STANDARD_SIGNATURE],
    [`whsec_${key.toString('base64url')}`, key, STANDARD_SIGNATURE],
    [`whsec_${key.toString('base64')}`, Buffer.from(SECRET), WRONG_SIGNATURE],
    [longKey.toString('base64'), longKey, STANDARD_SIGNATURE],
    [longKey.toString('base64'), Buffer.from(longKey.toString('base64')), STANDARD_SIGNATURE],
    [shortKey.toString('base64'), shortKey, WRONG_SIGNATURE],
    [shortKey.toString('base64'), Buffer.from(shortKey.toString('base64')), STANDARD_SIGNATURE],
    [String(text), text, STANDARD_SIGNATURE],
  ] as const) {
    assert.deepEqual(verify(signWithKey(signingKey), { secret }), expected, secret);
    // The body-only HMAC always uses the secret's text as key, even if it is Base64.
    const bodyHeaders = createBodyHeaders(computeHmac(BODY, secret).toString('hex'));
    assert.deepEqual(verify(bodyHeaders, { secret }), HMAC_SIGNATURE, secret);
  }
});

const EMPTY_EVENT = { name: null, userId: null, eventId: null };

test('The members of an event are read, and malformed ones are ignored', () => {
  for (const [text, expected] of [
    ['{"event":"user.blocked","user_id":"u-1"}', { name: 'user.blocked', userId: 'u-1' }],
    ['{"type":"user.blocked","user_id":"u-1"}', { name: 'user.blocked', userId: 'u-1' }],
    ['{"data":{"user_id":"u-1"}}', { userId: 'u-1' }],
    ['{"user_id":"u-1","data":{"user_id":"u-2"}}', { userId: 'u-1' }],
    ['{"user_id":null,"data":{"user_id":7}}', { userId: '7' }],
    ['{"user_id":12345678901234567890}', { userId: '12345678901234567890' }],
    ['{"user_id":"u\\u0000"}', {}],
    [`{"user_id":"${'u'.repeat(256)}"}`, {}],
    ['{"event_id":"evt_1"}', { eventId: 'evt_1' }],
    ['{"event":"user.\\u0000blocked"}', { name: 'user.\ufffdblocked' }],
    ['{"__proto__":{"event":"user.blocked","user_id":"u-1"}}', {}],
    ['\ufeff {"user_id":"u-1"}\n', { userId: 'u-1' }],
  ] as const) {
    assert.deepEqual(parseEvent(Buffer.from(text)), { ...EMPTY_EVENT, ...expected }, text);
  }
});
