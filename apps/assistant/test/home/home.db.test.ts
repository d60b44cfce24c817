import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Browser, openAssistant } from '../helpers/assistant.ts';
import { OLENA } from '../scripted-provider.ts';

const { provider, instance } = await openAssistant();
const app = await instance();

test('a stranger finds the way in', async () => {
  const answer = await app.inject('/');
  assert.equal(answer.statusCode, 200);
  // The public origin, so that whoever came by another name of this service can sign in.
  assert.match(answer.body, /href="http:\/\/assistant\.test\/auth\/login"/);
  assert.match(answer.body, /href="\/docs"/);
  assert.doesNotMatch(answer.body, /Sign out/);
});

test('somebody signed in finds their name and the way out, whatever the name is', async () => {
  provider.user = { ...OLENA, profile: { display_name: '<img src=x onerror=alert(1)>' } };
  const browser = new Browser(app);
  await browser.signIn(provider);
  const { body } = await browser.get('/');
  assert.match(body, /&#60;img src=x onerror=alert\(1\)&#62;/);
  assert.match(body, /olena@example\.test/);
  assert.match(body, /svc\.sessions\.read_own, svc\.tools\.use/);
  assert.match(body, /id="sign-out"/);
});

test('an admin has all permissions, and slugs that are none are left out', async () => {
  const [entry] = OLENA.client_access_list;
  const page = async (access: object) => {
    provider.user = { ...OLENA, client_access_list: [{ ...entry, ...access }] };
    const browser = new Browser(app);
    await browser.signIn(provider);
    return (await browser.get('/')).body;
  };
  assert.match(await page({ role_ids: ['svc_admin'] }), /<dd>all, as an admin<\/dd>/);
  const mixed = { permission_ids: ['svc_user', 'toString', 'svc.tools.use'] };
  assert.match(await page(mixed), /<dd>svc\.tools\.use<\/dd>/);
  assert.match(await page({ permission_ids: ['svc_user'] }), /<dd>none<\/dd>/);
});

test('the page is in no cache and runs no script', async () => {
  const answer = await app.inject('/');
  assert.equal(answer.headers['cache-control'], 'no-store');
  const policy = String(answer.headers['content-security-policy']);
  assert.match(policy, /default-src 'none'/);
  assert.match(policy, /form-action 'self'/);
  assert.doesNotMatch(policy, /script-src|unsafe/);
  // Else the form would come with `Origin: null`, and count as another site's.
  assert.equal(answer.headers['referrer-policy'], 'same-origin');
});

test('a cookie that is not valid shows the signed-out page and is cleared', async () => {
  const answer = await app.inject({ url: '/', cookies: { svc_auth_session: 'A'.repeat(43) } });
  assert.equal(answer.statusCode, 200);
  assert.match(answer.body, /not signed in/);
  assert.equal(answer.cookies[0]?.maxAge, 0);
});

test('an error at sign-in is a page for a browser that navigates', async () => {
  const answer = await app.inject({
    url: '/auth/callback?code=a&state=b',
    headers: { accept: 'text/html' },
  });
  assert.equal(answer.statusCode, 400);
  assert.match(answer.body, /href="\/auth\/login">Sign in again</);
});
