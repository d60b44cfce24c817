import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { suite, test, type TestContext } from 'node:test';
import { Browser, locationOf } from '@oselya/testing';
import { PERMISSIONS } from '../src/accounts.ts';
import type { DevIdp } from '../src/server.ts';
import {
  assertEnded,
  assertSigned,
  errorOf,
  redeem,
  SECRET,
  send,
  signIn,
  signInToCode,
  startIdp,
  startReceiver,
  storeFileFor,
  userInfo,
} from './support.ts';

async function startWithReceiver(t: TestContext) {
  const receiver = await startReceiver();
  return { ...(await startIdp(t, { webhook: receiver.webhook })), receiver };
}

type Form = Record<string, string> | [string, string][];

/** Sends a form as a browser does from the provider's own page. */
function post(issuer: string, path: string, form: Form = {}, headers = {}): Promise<Response> {
  const own = { origin: issuer, 'sec-fetch-site': 'same-origin', ...headers };
  const body = new URLSearchParams(form);
  return new Browser().fetch(`${issuer}/control/${path}`, { method: 'POST', headers: own, body });
}

/** Sends a form, and returns the page that its answer leads to. */
async function submit(issuer: string, path: string, form: Form = {}): Promise<string> {
  const answer = await post(issuer, path, form);
  assert.equal(answer.status, 303, await answer.text());
  return (await send(locationOf(answer))).text();
}

/** Returns the text between the tags, with single spaces. */
const textOf = (html: string) =>
  html
    .replaceAll(/<style>[^]*<\/style>|<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();

const noticeOf = (html: string) =>
  textOf(/<div class="notice"[^]*?<\/div>/.exec(html)?.[0] ?? '(none)');

suite('the control page', () => {
  test('shows the accounts, the forms for them, and the webhooks', async (t) => {
    const { idp, issuer } = await startWithReceiver(t);
    idp.setBlocked('u-taras', true);
    await idp.webhooksSettled();
    const response = await send(issuer);
    assert.match(response.headers.get('content-security-policy') ?? '', /form-action 'self' http/);
    const html = await response.text();
    const text = textOf(html);
    assert.match(text, /Olena Koval active olena@example\.test · u-olena Roles svc_user/);
    assert.match(text, /Taras Melnyk blocked taras@example\.test · u-taras Roles svc_admin/);
    assert.match(text, /user\.blocked Taras Melnyk .* delivered: answered 200/);
    const buttons = [...html.matchAll(/<form [^>]*action="([^"]*)">[^]*?<\/form>/g)].map(
      ([form, action]) => [action, textOf(/<button[^]*<\/button>/.exec(form)?.[0] ?? '')],
    );
    assert.deepEqual(buttons, [
      ['/control/block', 'Block Olena Koval'],
      ['/control/revoke-sessions', 'Revoke sessions Olena Koval'],
      ['/control/access', 'Save roles and permissions of Olena Koval'],
      ['/control/unblock', 'Unblock Taras Melnyk'],
      ['/control/revoke-sessions', 'Revoke sessions Taras Melnyk'],
      ['/control/access', 'Save roles and permissions of Taras Melnyk'],
      ['/control/log-out-everybody', 'Log everybody out'],
    ]);
    const boxes = html.matchAll(/name="permission" value="([^"]*)"\s*(checked)?/g);
    const ticked = [...boxes].filter(([, , checked]) => checked).length;
    assert.equal(
      ticked,
      PERMISSIONS.length + PERMISSIONS.filter(({ forUsers }) => forUsers).length,
    );
  });

  test('blocks an account, which ends its sign-ins, and unblocks it', async (t) => {
    const { idp, issuer, receiver } = await startWithReceiver(t);
    const [olena, taras] = [await signIn(issuer), await signIn(issuer, 'u-taras')];
    const form = { account: 'u-olena' };
    assert.equal(
      noticeOf(await submit(issuer, 'block', form)),
      'Olena Koval is blocked, and all sign-ins of the account are over. user.blocked delivered: answered 200',
    );
    assert.equal(idp.accounts[0]?.blocked, true);
    await assertEnded(issuer, olena);
    assert.equal((await userInfo(issuer, taras)).status, 200);
    const notices = [
      noticeOf(await submit(issuer, 'block', form)),
      noticeOf(await submit(issuer, 'unblock', form)),
      noticeOf(await submit(issuer, 'unblock', form)),
    ];
    assert.deepEqual(notices, [
      'Olena Koval was blocked already.',
      'Olena Koval can sign in again. user.unblocked delivered: answered 200',
      'Olena Koval was not blocked.',
    ]);
    await assertEnded(issuer, olena);
    assert.equal((await userInfo(issuer, await signIn(issuer))).status, 200);
    assert.deepEqual(receiver.events(), [
      ['user.blocked', 'u-olena'],
      ['user.unblocked', 'u-olena'],
    ]);
    for (const message of receiver.requests) assertSigned(message, SECRET);
  });

  test('ends the sign-ins of one account, or of all', async (t) => {
    const { issuer, receiver } = await startWithReceiver(t);
    const [olena, taras] = [await signIn(issuer), await signIn(issuer, 'u-taras')];
    const html = await submit(issuer, 'revoke-sessions', { account: 'u-olena' });
    assert.match(noticeOf(html), /^All sign-ins of Olena Koval are over\. session\.revoked/);
    await assertEnded(issuer, olena);
    assert.equal((await userInfo(issuer, taras)).status, 200);
    const page = await submit(issuer, 'log-out-everybody');
    assert.match(noticeOf(page), /^Everybody is logged out\. auth\.global_logout/);
    await assertEnded(issuer, taras);
    assert.deepEqual(receiver.events(), [
      ['session.revoked', 'u-olena'],
      ['auth.global_logout', undefined],
    ]);
    assert.equal((await userInfo(issuer, await signIn(issuer))).status, 200);
  });

  test('changes roles and permissions as the boxes are ticked', async (t) => {
    const { idp, issuer, receiver } = await startWithReceiver(t);
    const tokens = await signIn(issuer);
    const form: [string, string][] = [
      ['account', 'u-olena'],
      ['role', 'svc_user'],
      ['role', 'svc_admin'],
      ['permission', 'svc.debug.access'],
    ];
    assert.match(
      noticeOf(await submit(issuer, 'access', form)),
      /^Roles and permissions of Olena Koval are saved\. client\.roles_changed delivered: .* client\.permissions_changed delivered/,
    );
    const data: { client_access_list: unknown } = JSON.parse(
      await (await userInfo(issuer, tokens)).text(),
    );
    const access = { role_ids: ['svc_user', 'svc_admin'], permission_ids: ['svc.debug.access'] };
    assert.deepEqual(data.client_access_list, [{ client_id: 'oselya', ...access }]);
    const again = await submit(issuer, 'access', form);
    assert.equal(noticeOf(again), 'Roles and permissions of Olena Koval are unchanged.');
    await submit(issuer, 'access', { account: 'u-olena' });
    assert.deepEqual([idp.accounts[0]?.role_ids, idp.accounts[0]?.permission_ids], [[], []]);
    assert.equal(receiver.events().length, 4);
  });

  test('shows a notice once, and does not wait for a receiver that hangs', async (t) => {
    const receiver = await startReceiver(['silence']);
    const { issuer } = await startIdp(t, { webhook: receiver.webhook });
    const location = locationOf(await post(issuer, 'log-out-everybody'));
    const notice = noticeOf(await (await send(location)).text());
    assert.match(notice, /auth\.global_logout being delivered: no answer yet$/);
    assert.equal(noticeOf(await (await send(location)).text()), '(none)');
  });

  test('serves scripts without a browser too', async (t) => {
    const { idp, issuer } = await startIdp(t);
    const body = new URLSearchParams({ account: 'u-olena' });
    const answer = await send(`${issuer}/control/block`, { method: 'POST', body });
    assert.equal(answer.status, 303);
    assert.equal(idp.accounts[0]?.blocked, true);
    const html = await (await send(locationOf(answer))).text();
    assert.match(noticeOf(html), /not delivered: no webhook is set up$/);
  });
});

async function assertRejected(answer: Response, status: number, said: RegExp) {
  assert.equal(answer.status, status);
  assert.match(answer.headers.get('content-security-policy') ?? '', /default-src 'none'/);
  const html = await answer.text();
  assert.match(html, /Nothing was changed/);
  assert.match(html, said);
}

suite('a rejected form changes nothing', () => {
  const PATHS = ['block', 'unblock', 'revoke-sessions', 'access', 'log-out-everybody'];

  test('from a page of another origin, about an unknown account, with unknown values', async (t) => {
    const { idp, issuer, receiver } = await startWithReceiver(t);
    const tokens = await signIn(issuer);
    const before = idp.accounts;
    const elsewhere = [
      { 'sec-fetch-site': 'cross-site', origin: 'http://rebound.example' },
      // The application: another port of this host is the same site and another origin.
      { 'sec-fetch-site': 'same-site', origin: 'http://127.0.0.1:8000' },
      { 'sec-fetch-site': 'cross-site', origin: issuer },
    ];
    for (const path of PATHS) {
      for (const headers of elsewhere) {
        const answer = await post(issuer, path, { account: 'u-olena' }, headers);
        await assertRejected(answer, 403, /another address/);
      }
    }
    for (const path of PATHS.slice(0, 4)) {
      const answer = await post(issuer, path, { account: '<b>nobody' });
      await assertRejected(answer, 404, /no account “&#60;b&#62;nobody”/);
      await assertRejected(await post(issuer, path), 400, /account/);
    }
    for (const [field, value] of [
      ['role', 'root'],
      ['permission', '<svc.tools.use>'],
      ['permission', 'svc_user'],
    ] as const) {
      const answer = await post(issuer, 'access', { account: 'u-olena', [field]: value });
      await assertRejected(answer, 400, new RegExp(field));
    }
    const large = await post(issuer, 'block', { account: 'x'.repeat(20_000) });
    await assertRejected(large, 413, /too large/);
    assert.deepEqual(idp.accounts, before);
    assert.equal((await userInfo(issuer, tokens)).status, 200);
    await idp.webhooksSettled();
    assert.deepEqual([idp.deliveries, receiver.requests], [[], []]);
  });
});

suite('changes by a call', () => {
  test('hold at once, and are sent in their order', async (t) => {
    const { idp, issuer, receiver } = await startWithReceiver(t);
    const { callback, verifier } = await signInToCode(issuer);
    idp.setBlocked('u-olena', true);
    const code = await redeem(issuer, callback, verifier);
    assert.deepEqual(await errorOf(code), [400, 'invalid_grant'], 'a code of a blocked account');
    idp.setBlocked('u-olena', false);
    const { role_ids = [], permission_ids = [] } = idp.accounts[0] ?? {};
    const turned = { role_ids, permission_ids: permission_ids.toReversed() };
    assert.deepEqual(idp.setAccess('u-olena', turned), [], 'only the order differs');
    idp.setAccess('u-olena', { role_ids: ['svc_admin'], permission_ids: [] });
    idp.revokeSessions('u-taras');
    idp.logOutEverybody();
    assert.throws(() => idp.setBlocked('u-2', true), RangeError);
    assert.throws(() => idp.setAccess('u-2', { role_ids, permission_ids }), RangeError);
    await idp.webhooksSettled();
    assert.deepEqual(receiver.events(), [
      ['user.blocked', 'u-olena'],
      ['user.unblocked', 'u-olena'],
      ['client.roles_changed', 'u-olena'],
      ['client.permissions_changed', 'u-olena'],
      ['session.revoked', 'u-taras'],
      ['auth.global_logout', undefined],
    ]);
    const states = new Set(idp.deliveries.map(({ state }) => state));
    assert.deepEqual([...states], ['delivered']);
  });

  // A refresh in progress saves its tokens after the revocation.
  const ends: [name: string, end: (idp: DevIdp) => void][] = [
    ['revoked sessions', (idp) => idp.revokeSessions('u-olena')],
    ['a log-out of everybody', (idp) => idp.logOutEverybody()],
  ];
  for (const [name, end] of ends) {
    test(`end sign-ins for good: tokens written after ${name} are rejected`, async (t) => {
      const storeFile = storeFileFor(t);
      const { idp, issuer } = await startIdp(t, { storeFile });
      const tokens = await signIn(issuer);
      const store = new DatabaseSync(storeFile);
      t.after(() => store.close());
      store.exec(
        `create table late as select model, id, payload, expires_at from artifacts
         where model in ('AccessToken', 'RefreshToken')`,
      );
      end(idp);
      const insert = 'insert into artifacts (model, id, payload, expires_at) select * from late';
      assert.equal(store.prepare(insert).run().changes, 2);
      await assertEnded(issuer, tokens);
    });
  }
});
