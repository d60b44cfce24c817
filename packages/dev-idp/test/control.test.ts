import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { Browser, getRedirectTarget, until, findUnusedUrl } from '@oselya/testing';
import { PERMISSIONS } from '../src/accounts.ts';
import { createWebhooks, createSignedHeaders, parseWebhookSecret } from '../src/webhooks.ts';
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
  userInfo,
} from './support.ts';

suite('control', () => {
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
    return (await send(getRedirectTarget(answer))).text();
  }

  /** Returns the text between the tags, with single spaces. */
  const textOf = (html: string) =>
    html
      .replaceAll(/<style>[^]*<\/style>|<[^>]*>/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim();

  const noticeOf = (html: string) =>
    textOf(/<div class="notice"[^]*?<\/div>/.exec(html)?.[0] ?? '(none)');

  suite('control page', () => {
    test('The control page shows the accounts, their forms, and the webhooks', async (t) => {
      const { idp, issuer } = await startWithReceiver(t);
      idp.setBlocked('u-taras', true);
      await idp.webhooksSettled();
      const response = await send(issuer);
      assert.match(
        response.headers.get('content-security-policy') ?? '',
        /form-action 'self' http/,
      );
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

    test('Blocking an account ends its sign-ins', async (t) => {
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

    test('Sign-ins of one account or of all can be ended', async (t) => {
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

    test('A form sets the roles and permissions of its checkboxes', async (t) => {
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

    test('A notice appears once and does not wait for a receiver that hangs', async (t) => {
      const receiver = await startReceiver(['silence']);
      const { issuer } = await startIdp(t, { webhook: receiver.webhook });
      const location = getRedirectTarget(await post(issuer, 'log-out-everybody'));
      const notice = noticeOf(await (await send(location)).text());
      assert.match(notice, /auth\.global_logout being delivered: no answer yet$/);
      assert.equal(noticeOf(await (await send(location)).text()), '(none)');
    });
  });

  async function assertRejected(answer: Response, status: number, said: RegExp) {
    assert.equal(answer.status, status);
    assert.match(answer.headers.get('content-security-policy') ?? '', /default-src 'none'/);
    const html = await answer.text();
    assert.match(html, /Nothing was changed/);
    assert.match(html, said);
  }

  suite('rejected form', () => {
    const PATHS = ['block', 'unblock', 'revoke-sessions', 'access', 'log-out-everybody'];

    test('An invalid form, or one of another origin, changes nothing', async (t) => {
      const { idp, issuer, receiver } = await startWithReceiver(t);
      const tokens = await signIn(issuer);
      const before = idp.accounts;
      const elsewhere = [
        { 'sec-fetch-site': 'cross-site', origin: 'http://rebound.example' },
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

  suite('changes', () => {
    test('Changes take effect at once, and their events arrive in order', async (t) => {
      const { idp, issuer, receiver } = await startWithReceiver(t);
      const { callback, verifier } = await signInToCode(issuer);
      idp.setBlocked('u-olena', true);
      const code = await redeem(issuer, callback, verifier);
      assert.deepEqual(
        await errorOf(code),
        [400, 'invalid_grant'],
        'the code of a blocked account',
      );
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
  });
});

suite('webhooks', () => {
  const QUICK = { retryDelaysMs: [1, 1, 1], timeoutMs: 5000 };

  test('Events are signed messages that arrive in their order', async () => {
    const { webhook, requests, events } = await startReceiver([500, 500, 400]);
    const webhooks = createWebhooks(webhook, QUICK);
    const { id, occurred_at } = webhooks.send('user.blocked', 'u-1');
    webhooks.send('user.unblocked', 'u-1');
    webhooks.send('auth.global_logout');
    await webhooks.settled();
    const names = events().map(([event]) => event);
    const blocked = ['user.blocked', 'user.blocked', 'user.blocked'];
    assert.deepEqual(names, [...blocked, 'user.unblocked', 'auth.global_logout']);
    for (const message of requests) assertSigned(message, SECRET);
    for (const { headers, body } of requests.slice(0, 3)) {
      assert.equal(headers['webhook-id'], id);
      assert.deepEqual(body, { event: 'user.blocked', user_id: 'u-1', occurred_at });
    }
    assert.deepEqual(Object.keys(Object(requests.at(-1)?.body)), ['event', 'occurred_at']);
  });

  const scripts: [
    script: (number | 'silence')[],
    attempts: number,
    state: string,
    detail: string,
  ][] = [
    [[204], 1, 'delivered', 'answered 204'],
    [[500, 503], 3, 'delivered', 'answered 200'],
    [[408, 429, 425], 4, 'delivered', 'answered 200'],
    [[500, 500, 500, 502], 4, 'failed', 'answered 502'],
    [[400], 1, 'failed', 'answered 400'],
    [[302], 1, 'failed', 'answered 302'],
    [['silence', 'silence', 'silence', 'silence'], 4, 'failed', 'no answer in time'],
  ];
  test('An event is retried after outages and not after rejections', async () => {
    for (const [script, ...expected] of scripts) {
      const { webhook } = await startReceiver(script);
      const timeoutMs = script[0] === 'silence' ? 20 : 5000;
      const webhooks = createWebhooks(webhook, { ...QUICK, timeoutMs });
      const { attempts, state, detail } = await settled(webhooks);
      assert.deepEqual([attempts, state, detail], expected);
    }
    const unreachable = createWebhooks({ url: await findUnusedUrl(), secret: SECRET }, QUICK);
    const { attempts, detail } = await settled(unreachable);
    assert.deepEqual([attempts, detail], [4, 'cannot be reached (ECONNREFUSED)']);
    assert.equal((await settled(createWebhooks())).detail, 'no webhook is set up');
  });

  async function settled(webhooks: ReturnType<typeof createWebhooks>) {
    const delivery = webhooks.send('session.revoked', 'u-1');
    await webhooks.settled();
    return delivery;
  }

  test('Events fail when the provider stops', async () => {
    const { webhook, requests } = await startReceiver(['silence']);
    const webhooks = createWebhooks(webhook, { timeoutMs: 600_000, retryDelaysMs: [600_000] });
    const waiting = [webhooks.send('user.blocked', 'u-1'), webhooks.send('user.unblocked', 'u-1')];
    await until('the first attempt', () => requests.length === 1);
    await webhooks.close();
    for (const { state, detail } of waiting) {
      assert.deepEqual([state, detail], ['failed', 'the provider was stopped']);
    }
    assert.equal(requests.length, 1);
  });

  test('A signature equals the example of Standard Webhooks', () => {
    const key = parseWebhookSecret('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
    const { 'webhook-signature': signature } = createSignedHeaders(key, {
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      timestamp: 1_614_265_330,
      body: '{"test": 2432232314}',
    });
    assert.equal(signature, 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
    for (const secret of ['plain', 'таємниця', 'Whsec_YQ==']) {
      assert.deepEqual(parseWebhookSecret(secret), Buffer.from(secret));
    }
    for (const encoded of ['c2VjcmV0', 'c2VjcmU', 'c2VjcmU=', '+/+/', '-_-_']) {
      assert.deepEqual(parseWebhookSecret(`whsec_${encoded}`), Buffer.from(encoded, 'base64'));
    }
    for (const encoded of ['', 'Z', 'c2VjcmV0=', 'c2Vj cmV0', '====']) {
      assert.throws(
        () => parseWebhookSecret(`whsec_${encoded}`),
        /^TypeError: webhook.secret: .*base64$/,
      );
    }
  });
});
