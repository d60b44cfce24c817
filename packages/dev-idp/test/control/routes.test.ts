import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { sampleAccounts } from '../../src/index.ts';
import { locationOf } from '../helpers/browser.ts';
import { refresh, refusalOf, signIn, type Tokens, userInfo } from '../helpers/client.ts';
import { send } from '../helpers/http.ts';
import { assertSigned, eventOf, startReceiver } from '../helpers/receiver.ts';
import { startIdp } from '../helpers/start.ts';

const secret = 'control-page-secret';

async function startWithReceiver(t: TestContext) {
  const receiver = await startReceiver(t);
  const { idp, issuer } = await startIdp(t, { webhook: { url: receiver.url, secret } });
  return { idp, issuer, receiver };
}

type Form = [string, string][] | Record<string, string>;

/** Sends a form as a browser does from the provider's own page. */
function post(issuer: string, path: string, form: Form = {}, headers = {}): Promise<Response> {
  return send(new URL(path, issuer), {
    method: 'POST',
    headers: { origin: issuer, 'sec-fetch-site': 'same-origin', ...headers },
    body: new URLSearchParams(form),
  });
}

/** Sends a form and gives the page that its answer leads to. */
async function act(issuer: string, path: string, form: Form = {}): Promise<string> {
  const answer = await post(issuer, path, form);
  assert.equal(answer.status, 303, await answer.text());
  const page = await send(locationOf(answer));
  assert.equal(page.status, 200);
  return page.text();
}

const noticeOf = (html: string) =>
  /<div class="notice"[^]*?<\/div>/
    .exec(html)?.[0]
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();

async function assertEnded(issuer: string, tokens: Tokens) {
  assert.deepEqual(await refusalOf(await userInfo(issuer, tokens)), [401, 'invalid_token']);
  assert.deepEqual(await refusalOf(await refresh(issuer, tokens)), [400, 'invalid_grant']);
}

async function assertRefused(answer: Response, status: number, said: RegExp) {
  assert.equal(answer.status, status);
  assert.match(answer.headers.get('content-type') ?? '', /^text\/html/);
  assert.match(answer.headers.get('content-security-policy') ?? '', /default-src 'none'/);
  const html = await answer.text();
  assert.match(html, /Nothing was changed/);
  assert.match(html, said);
}

describe('the acts of the control page', () => {
  test('block an account, which ends its sign-ins, and unblock it', async (t) => {
    const { idp, issuer, receiver } = await startWithReceiver(t);
    const [olena, taras] = [await signIn(issuer), await signIn(issuer, 'u-taras')];
    const blocked = await act(issuer, '/control/block', { account: 'u-olena' });
    assert.equal(
      noticeOf(blocked),
      'Olena Koval is blocked, and all sign-ins of the account are over. user.blocked delivered: answered 200',
    );
    assert.equal(idp.accounts.find(({ sub }) => sub === 'u-olena')?.blocked, true);
    await assertEnded(issuer, olena);
    assert.equal((await userInfo(issuer, taras)).status, 200);

    const again = await act(issuer, '/control/block', { account: 'u-olena' });
    assert.equal(noticeOf(again), 'Olena Koval was blocked already.');
    const unblocked = await act(issuer, '/control/unblock', { account: 'u-olena' });
    assert.match(noticeOf(unblocked) ?? '', /^Olena Koval can sign in again\. user\.unblocked/);
    const once = await act(issuer, '/control/unblock', { account: 'u-olena' });
    assert.equal(noticeOf(once), 'Olena Koval was not blocked.');
    await assertEnded(issuer, olena);
    assert.equal((await userInfo(issuer, await signIn(issuer))).status, 200);

    assert.deepEqual(receiver.messages.map(eventOf), [
      ['user.blocked', 'u-olena'],
      ['user.unblocked', 'u-olena'],
    ]);
    for (const message of receiver.messages) assertSigned(message, secret);
  });

  test('revoke the sessions of one account', async (t) => {
    const { issuer, receiver } = await startWithReceiver(t);
    const [olena, taras] = [await signIn(issuer), await signIn(issuer, 'u-taras')];
    const html = await act(issuer, '/control/revoke-sessions', { account: 'u-olena' });
    assert.match(noticeOf(html) ?? '', /^All sign-ins of Olena Koval are over\. session\.revoked/);
    await assertEnded(issuer, olena);
    assert.equal((await userInfo(issuer, taras)).status, 200);
    assert.deepEqual(receiver.messages.map(eventOf), [['session.revoked', 'u-olena']]);
  });

  test('log everybody out', async (t) => {
    const { issuer, receiver } = await startWithReceiver(t);
    const [olena, taras] = [await signIn(issuer), await signIn(issuer, 'u-taras')];
    const html = await act(issuer, '/control/log-out-everybody');
    assert.match(noticeOf(html) ?? '', /^Everybody is logged out\. auth\.global_logout/);
    await assertEnded(issuer, olena);
    await assertEnded(issuer, taras);
    assert.deepEqual(receiver.messages.map(eventOf), [['auth.global_logout', undefined]]);
    assert.equal((await userInfo(issuer, await signIn(issuer))).status, 200);
  });

  test('change roles and permissions as the boxes are ticked', async (t) => {
    const { idp, issuer, receiver } = await startWithReceiver(t);
    const tokens = await signIn(issuer);
    const form: [string, string][] = [
      ['account', 'u-olena'],
      ['role', 'svc_user'],
      ['role', 'svc_admin'],
      ['permission', 'svc.debug.access'],
    ];
    const saved = await act(issuer, '/control/access', form);
    assert.match(
      noticeOf(saved) ?? '',
      /^Roles and permissions of Olena Koval are saved\. client\.roles_changed delivered: .* client\.permissions_changed delivered/,
    );
    const { client_access_list }: { client_access_list: object[] } = JSON.parse(
      await (await userInfo(issuer, tokens)).text(),
    );
    assert.deepEqual(client_access_list, [
      {
        client_id: 'oselya',
        role_ids: ['svc_user', 'svc_admin'],
        permission_ids: ['svc.debug.access'],
      },
    ]);

    const again = await act(issuer, '/control/access', form);
    assert.equal(noticeOf(again), 'Roles and permissions of Olena Koval are unchanged.');
    await act(issuer, '/control/access', { account: 'u-olena' });
    const { role_ids, permission_ids } = idp.accounts[0] ?? {};
    assert.deepEqual({ role_ids, permission_ids }, { role_ids: [], permission_ids: [] });
    assert.deepEqual(receiver.messages.map(eventOf), [
      ['client.roles_changed', 'u-olena'],
      ['client.permissions_changed', 'u-olena'],
      ['client.roles_changed', 'u-olena'],
      ['client.permissions_changed', 'u-olena'],
    ]);
  });

  test('are told of once: the page that is loaded anew claims nothing', async (t) => {
    const { issuer } = await startIdp(t);
    const location = locationOf(await post(issuer, '/control/log-out-everybody'));
    assert.match(noticeOf(await (await send(location)).text()) ?? '', /no webhook is set up/);
    assert.equal(noticeOf(await (await send(location)).text()), undefined);
  });

  test('do not wait for a receiver that hangs', async (t) => {
    const receiver = await startReceiver(t, ['never']);
    const { issuer } = await startIdp(t, { webhook: { url: receiver.url, secret } });
    const tokens = await signIn(issuer);
    const html = await act(issuer, '/control/revoke-sessions', { account: 'u-olena' });
    assert.match(noticeOf(html) ?? '', /session\.revoked being delivered: no answer yet$/);
    await assertEnded(issuer, tokens);
  });

  test('work on accounts whose names and subs are hostile', async (t) => {
    const sub = `u/../"'<b>&?#%00 ї`;
    const account = { ...sampleAccounts[0], sub, display_name: '<b>Bo', email: 'bo@example.test' };
    const receiver = await startReceiver(t);
    const { idp, issuer } = await startIdp(t, {
      webhook: { url: receiver.url, secret },
      accounts: [{ role_ids: [], permission_ids: [], blocked: false, ...account }],
    });
    const html = await act(issuer, '/control/block', { account: sub });
    assert.match(html, /&#60;b&#62;Bo is blocked/);
    assert.equal(idp.accounts[0]?.blocked, true);
    assert.deepEqual(receiver.messages.map(eventOf), [['user.blocked', sub]]);
  });
});

describe('a form that is refused changes nothing and is answered with a page', () => {
  const paths = ['block', 'unblock', 'revoke-sessions', 'access', 'log-out-everybody'];

  test('from a page of another origin', async (t) => {
    const { idp, issuer, receiver } = await startWithReceiver(t);
    const tokens = await signIn(issuer);
    const before = idp.accounts;
    const elsewhere = [
      { 'sec-fetch-site': 'cross-site', origin: 'http://rebound.example' },
      // The application itself: another port of this host is the same site and another origin.
      { 'sec-fetch-site': 'same-site', origin: 'http://127.0.0.1:8000' },
      { 'sec-fetch-site': 'cross-site', origin: issuer },
    ];
    for (const path of paths) {
      for (const headers of elsewhere) {
        const answer = await post(issuer, `/control/${path}`, { account: 'u-olena' }, headers);
        await assertRefused(answer, 403, /sent by a page of another address/);
      }
      const old = await send(new URL(`/control/${path}`, issuer), {
        method: 'POST',
        headers: { origin: 'null' },
        body: new URLSearchParams({ account: 'u-olena' }),
      });
      await assertRefused(old, 403, /another address/);
    }
    assert.deepEqual(idp.accounts, before);
    assert.equal((await userInfo(issuer, tokens)).status, 200);
    await idp.webhooksSettled();
    assert.deepEqual([idp.deliveries, receiver.messages], [[], []]);
  });

  test('about an account that does not exist', async (t) => {
    const { idp, issuer } = await startWithReceiver(t);
    for (const path of paths.slice(0, 4)) {
      const answer = await post(issuer, `/control/${path}`, { account: '<b>nobody' });
      await assertRefused(answer, 404, /no account “&#60;b&#62;nobody”/);
    }
    assert.deepEqual(idp.deliveries, []);
  });

  test('with values that no form offers', async (t) => {
    const { idp, issuer } = await startWithReceiver(t);
    const before = idp.accounts;
    for (const [field, value] of [
      ['role', 'root'],
      ['permission', '<svc.tools.use>'],
      ['permission', 'svc_user'],
    ] as const) {
      const answer = await post(issuer, '/control/access', { account: 'u-olena', [field]: value });
      await assertRefused(answer, 400, new RegExp(`There is no ${field} “`));
    }
    for (const path of paths.slice(0, 4)) {
      await assertRefused(await post(issuer, `/control/${path}`), 400, /account/);
    }
    const large = await post(issuer, '/control/block', { account: 'x'.repeat(20_000) });
    await assertRefused(large, 413, /too large/);
    assert.deepEqual(idp.accounts, before);
    assert.deepEqual(idp.deliveries, []);
  });
});

test('a script without a browser may act too', async (t) => {
  const { idp, issuer } = await startIdp(t);
  const answer = await send(new URL('/control/block', issuer), {
    method: 'POST',
    body: new URLSearchParams({ account: 'u-olena' }),
  });
  assert.equal(answer.status, 303);
  assert.equal(idp.accounts[0]?.blocked, true);
});
