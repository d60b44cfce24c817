import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { USER_CHANNEL } from '../../src/identity/revocation.ts';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { until } from '../helpers/until.ts';
import { OLENA } from '../scripted-provider.ts';

const { db, provider, instance, listen, signedIn, row } = await openAssistant({
  IDP_USER_MAX_AGE_SECONDS: '3600',
});
const app = await instance();
const BOHDAN = { ...OLENA, sub: 'u-2', email: 'bohdan@example.test' };

beforeEach(async () => {
  provider.reset();
  await db.deleteFrom('user_auth_sessions').execute();
  await db.deleteFrom('audit_log').execute();
});

const publicId = ({ sid }: Browser) => createHash('sha256').update(sid).digest('hex').slice(0, 16);
const ids = (answer: { json(): { id: string }[] }) => answer.json().map(({ id }) => id);

test('own sign-ins are listed, newest first, without the value of any cookie', async () => {
  const phone = await signedIn(app);
  const laptop = await signedIn(app);
  const other = await signedIn(app, BOHDAN);
  const answer = await laptop.get('/auth/sessions');
  assert.equal(answer.statusCode, 200);
  assert.equal(answer.headers['cache-control'], 'no-store');
  assert.deepEqual(ids(answer), [publicId(laptop), publicId(phone)]);
  const [first, second] = answer.json();
  assert.deepEqual([first.current, second.current], [true, false]);
  assert.equal(first.address, '127.0.0.1');
  assert.match(first.user_agent, /lightMyRequest/);
  for (const time of [first.created_at, first.last_used_at]) {
    assert.equal(new Date(time).toISOString(), time);
  }
  for (const { sid } of [phone, laptop, other]) assert.ok(!answer.body.includes(sid));
});

test('a page is followed by the next, though several began in one moment', async () => {
  const browser = await signedIn(app);
  for (let micros = 0; micros < 4; micros += 1) {
    const { sid } = await signedIn(app);
    // Two of each moment, and all in one millisecond: a Date would not tell them apart.
    await sql`update user_auth_sessions set created_at = date_trunc('day', now())
      - ${micros % 2} * interval '1 microsecond' where id = ${sid}`.execute(db);
  }
  const whole = ids(await browser.get('/auth/sessions'));
  assert.equal(whole.length, 5);
  const seen: string[] = [];
  let next: string | undefined = '/auth/sessions?limit=2';
  while (next !== undefined) {
    const answer = await browser.get(next);
    seen.push(...ids(answer));
    next = /<(.*)>; rel="next"/.exec(String(answer.headers.link))?.[1];
  }
  assert.deepEqual(seen, whole);
});

test('a sign-in whose lifetime is over is neither listed nor ended', async () => {
  const old = await signedIn(app);
  const browser = await signedIn(app);
  await sql`update user_auth_sessions set created_at = now() - interval '30 days'
    where id = ${old.sid}`.execute(db);
  assert.deepEqual(ids(await browser.get('/auth/sessions')), [publicId(browser)]);
  const answer = await browser.request('DELETE', `/auth/sessions/${publicId(old)}`);
  assert.equal(answer.statusCode, 404);
});

test('neither is one that was not used for as long as SVC_AUTH_IDLE_DAYS', async () => {
  const idling = await instance({ SVC_AUTH_IDLE_DAYS: '7' });
  const old = await signedIn(idling);
  const browser = await signedIn(idling);
  await sql`update user_auth_sessions set last_used_at = now() - interval '7 days'
    where id = ${old.sid}`.execute(db);
  assert.deepEqual(ids(await browser.get('/auth/sessions')), [publicId(browser)]);
  const answer = await browser.request('DELETE', `/auth/sessions/${publicId(old)}`);
  assert.equal(answer.statusCode, 404);
});

test('another own sign-in is ended: its row, its tokens and its sockets', async () => {
  const heard: string[] = [];
  const stop = await listen(USER_CHANNEL, (payload) => heard.push(payload));
  const phone = await signedIn(app);
  const { sid } = phone;
  const id = publicId(phone);
  const phoneTokens = provider.issued.slice(-2);
  const laptop = await signedIn(app);
  heard.length = 0;
  const answer = await laptop.request('DELETE', `/auth/sessions/${id}`);
  assert.deepEqual([answer.statusCode, answer.json()], [200, { ok: true }]);
  assert.deepEqual(answer.cookies, []);
  assert.equal(await row(sid), undefined);
  assert.equal((await phone.get('/auth/me')).statusCode, 401);
  assert.equal((await laptop.get('/auth/me')).statusCode, 200);
  await until(() => provider.revoked.length === 2);
  assert.deepEqual(provider.revoked.toSorted(), phoneTokens.toSorted());
  await until(() => heard.includes('u-1'));
  await stop();
  const line = await db
    .selectFrom('audit_log')
    .select(['actor_id', 'user_id', 'details'])
    .where('action', '=', 'sign_in_ended')
    .executeTakeFirst();
  assert.deepEqual(line, {
    actor_id: 'u-1',
    user_id: 'u-1',
    details: { sign_in: id },
  });
});

test('ending the current sign-in clears its cookie', async () => {
  const browser = await signedIn(app);
  const { sid } = browser;
  const answer = await browser.request('DELETE', `/auth/sessions/${publicId(browser)}`);
  assert.equal(answer.statusCode, 200);
  assert.ok(!browser.cookies.has('svc_auth_session'));
  assert.equal(await row(sid), undefined);
});

test("another user's sign-in is as good as none", async () => {
  const other = await signedIn(app, BOHDAN);
  const browser = await signedIn(app, OLENA);
  for (const id of [publicId(other), '0'.repeat(16)]) {
    const answer = await browser.request('DELETE', `/auth/sessions/${id}`);
    assert.deepEqual([answer.statusCode, answer.json().code], [404, 'sign_in_not_found']);
  }
  assert.notEqual(await row(other.sid), undefined);
  assert.equal(
    (await db.selectFrom('audit_log').select('id').where('action', '=', 'sign_in_ended').execute())
      .length,
    0,
  );
});

for (const url of [
  '/auth/sessions?cursor=nonsense',
  `/auth/sessions?cursor=${Buffer.from('{"createdAtMicros":1e400,"id":"0"}').toString('base64url')}`,
  `/auth/sessions?cursor=${Buffer.from('{"createdAtMicros":1e300,"id":"0123456789abcdef"}').toString('base64url')}`,
  '/auth/sessions?limit=0',
]) {
  test(`${url} is 422`, async () => {
    assert.equal((await (await signedIn(app)).get(url)).statusCode, 422);
  });
}

for (const [id, status] of [
  ['short', 404],
  ['A'.repeat(43), 404],
  ["' or 1=1 --", 404],
  ['%00'.repeat(16), 422],
] as const) {
  test(`the id ${id} is ${status}`, async () => {
    const browser = await signedIn(app);
    const answer = await browser.request('DELETE', `/auth/sessions/${id}`);
    assert.equal(answer.statusCode, status);
  });
}

test('another site cannot end a sign-in', async () => {
  const browser = await signedIn(app);
  const answer = await browser.request('DELETE', `/auth/sessions/${publicId(browser)}`, {
    headers: { 'sec-fetch-site': 'cross-site' },
  });
  assert.equal(answer.statusCode, 403);
  assert.notEqual(await row(browser.sid), undefined);
});
