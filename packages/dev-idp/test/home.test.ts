import assert from 'node:assert/strict';
import { test } from 'node:test';
import { redirectUri } from './helpers/client.ts';
import { startIdp } from './helpers/start.ts';

test('the front page names every account and leads to the application', async (t) => {
  const { idp, issuer } = await startIdp(t);
  idp.setBlocked('u-taras', true);
  const response = await fetch(issuer);
  assert.equal(response.status, 200);
  const html = await response.text();
  assert.match(html, /Olena Koval <span>olena@example\.test · svc_user<\/span>/);
  assert.match(html, /Taras Melnyk <span>taras@example\.test · svc_admin · blocked<\/span>/);
  assert.ok(html.includes(`href="${new URL('/', redirectUri).href}"`));
  assert.match(String(response.headers.get('content-security-policy')), /default-src 'none'/);
});
