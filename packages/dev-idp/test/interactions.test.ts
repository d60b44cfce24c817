import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Browser, locationOf } from './helpers/browser.ts';
import { authorization, openPicker, pick, redirectUri } from './helpers/client.ts';
import { startIdp } from './helpers/start.ts';

describe('the choice of an account', () => {
  test('offers every account with a button of its own', async (t) => {
    const { issuer } = await startIdp(t);
    const browser = new Browser();
    const response = await browser.get(await openPicker(issuer, browser));
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('cache-control'), 'no-store');
    const html = await response.text();
    const buttons = [
      ...html.matchAll(/<button name="account" value="([^"]*)">\s*([^<]*?)\s*<span>/g),
    ];
    assert.deepEqual(
      buttons.map(([, sub, name]) => [sub, name]),
      [
        ['u-olena', 'Olena Koval'],
        ['u-taras', 'Taras Melnyk'],
      ],
    );
  });

  test('shows a blocked account and refuses it', async (t) => {
    const { idp, issuer } = await startIdp(t);
    idp.setBlocked('u-olena', true);
    const browser = new Browser();
    const picker = await openPicker(issuer, browser);
    const html = await (await browser.get(picker)).text();
    assert.match(html, /<button name="account" value="u-olena" disabled>/);

    const refused = await browser.post(picker, { account: 'u-olena' });
    assert.equal(refused.status, 400);
    assert.match(await refused.text(), /This account cannot sign in/);

    const callback = await pick(browser, picker, { account: 'u-taras' });
    assert.ok(callback.searchParams.has('code'));
  });

  test('is refused when the account is blocked between choice and return', async (t) => {
    const { idp, issuer } = await startIdp(t);
    const browser = new Browser();
    const picker = await openPicker(issuer, browser);
    const resume = locationOf(await browser.post(picker, { account: 'u-olena' }));
    idp.setBlocked('u-olena', true);

    const callback = locationOf(await browser.get(resume));
    assert.equal(callback.origin + callback.pathname, redirectUri);
    assert.equal(callback.searchParams.get('error'), 'access_denied');
    assert.ok(!browser.cookieNames.includes('oselya_idp_session'));
  });

  test('refuses a choice that was never offered', async (t) => {
    const { issuer } = await startIdp(t);
    const browser = new Browser();
    const picker = await openPicker(issuer, browser);
    const choices: Record<string, string>[] = [{ account: 'u-nobody' }, {}];
    for (const form of choices) {
      assert.equal((await browser.post(picker, form)).status, 400);
    }
  });

  test('can be cancelled, which the application hears as access_denied', async (t) => {
    const { issuer } = await startIdp(t);
    const browser = new Browser();
    const callback = await pick(browser, await openPicker(issuer, browser), { action: 'cancel' });
    assert.equal(callback.origin + callback.pathname, redirectUri);
    assert.equal(callback.searchParams.get('error'), 'access_denied');
    assert.equal(callback.searchParams.get('state'), 'state-1');
    assert.equal(callback.searchParams.get('code'), null);
  });

  test('works in two tabs at once', async (t) => {
    const { issuer } = await startIdp(t);
    const browser = new Browser();
    const first = await openPicker(issuer, browser, authorization(issuer, { state: 'first' }).url);
    const second = await openPicker(
      issuer,
      browser,
      authorization(issuer, { state: 'second' }).url,
    );
    for (const [picker, state] of [
      [second, 'second'],
      [first, 'first'],
    ] as const) {
      const callback = await pick(browser, picker, { account: 'u-olena' });
      assert.equal(callback.searchParams.get('state'), state);
      assert.ok(callback.searchParams.has('code'));
    }
  });
});

describe('a lost interaction', () => {
  test('is explained when the browser is another one', async (t) => {
    const { issuer } = await startIdp(t);
    const picker = await openPicker(issuer, new Browser());
    const stranger = new Browser();
    for (const response of [
      await stranger.get(picker),
      await stranger.post(picker, { account: 'u-olena' }),
    ]) {
      assert.equal(response.status, 400);
      const html = await response.text();
      assert.match(html, /This sign-in is no longer open/);
      assert.match(html, /<a href="http:\/\/127\.0\.0\.1:8000\/">Go to the application<\/a>/);
    }
  });

  test('is explained when the sign-in is over already', async (t) => {
    const { issuer } = await startIdp(t);
    const browser = new Browser();
    const picker = await openPicker(issuer, browser);
    const resume = locationOf(await browser.post(picker, { account: 'u-olena' }));
    await browser.get(resume);

    const late = await browser.post(picker, { account: 'u-olena' });
    assert.equal(late.status, 400);
    assert.match(await late.text(), /This sign-in is no longer open/);
    const resumed = await browser.get(resume);
    assert.equal(resumed.status, 400);
    assert.match(await resumed.text(), /The sign-in request was refused[^]*Go to the application/);
  });
});
