import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, test } from 'node:test';
import { createLogger } from '@oselya/kit';
import { createApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { offlineDatabase } from '@oselya/db';

const app = await createApp({
  config: readConfig({
    ANDROID_APP_PACKAGE: 'test.oselya.app',
    SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64url'),
  }),
  database: offlineDatabase(),
  log: createLogger({ level: 'silent', service: 'test' }),
});
after(() => app.close());

const sid = 'Az09_-'.repeat(8).slice(0, 43);
const answer = await app.inject(`/auth/mobile-done?sid=${sid}`);

const hash = (text: string) => createHash('sha256').update(text).digest('base64');
const element = (name: string) =>
  new RegExp(`<${name}>(.*?)</${name}>`, 's').exec(answer.body)?.[1] ?? '';

test('the bridge page goes to the intent of the application', () => {
  assert.equal(answer.statusCode, 200);
  assert.match(String(answer.headers['content-type']), /^text\/html/);
  const intent = `intent://auth/callback?sid=${sid}#Intent;scheme=svc;package=test.oselya.app;end`;
  assert.ok(answer.body.includes(`href="${intent}" hidden`));
  assert.match(element('script'), /location\.href = link\.href/);
  assert.match(element('script'), /1500/);
  assert.match(element('style'), /color-scheme: dark/);
});

test('it is kept nowhere, sends no referrer and loads nothing', () => {
  assert.equal(answer.headers['cache-control'], 'no-store');
  assert.equal(answer.headers['referrer-policy'], 'no-referrer');
  const policy = String(answer.headers['content-security-policy']);
  assert.match(policy, /^default-src 'none'/);
  assert.ok(policy.includes(`script-src 'sha256-${hash(element('script'))}'`));
  assert.ok(policy.includes(`style-src 'sha256-${hash(element('style'))}'`));
  assert.doesNotMatch(answer.body, /src=|https?:|@import|url\(/);
});

for (const bad of [
  '',
  'short',
  `${sid}A`,
  `${sid.slice(1)};`,
  '"><script>alert(1)</script>'.padEnd(43, 'A').slice(0, 43),
  '%22%3E%3Cscript%3Ealert(1)%3C/script%3E',
]) {
  test(`the sid "${bad}" is 422 and does not come back`, async () => {
    const refused = await app.inject({
      url: `/auth/mobile-done?sid=${encodeURIComponent(bad)}`,
      headers: { accept: 'text/html' },
    });
    assert.equal(refused.statusCode, 422);
    assert.ok(bad === '' || !refused.body.includes(bad));
    assert.doesNotMatch(refused.body, /intent:/);
  });
}

test('without a session id it says what to do, as a page for a browser', async () => {
  for (const query of ['', '?sid=', '?sid=short', `?sid=${'!'.repeat(43)}`]) {
    const refused = await app.inject(`/auth/mobile-done${query}`);
    assert.deepEqual([refused.statusCode, refused.json().code], [422, 'hand_over_not_valid']);
  }
  const page = await app.inject({ url: '/auth/mobile-done', headers: { accept: 'text/html' } });
  assert.equal(page.statusCode, 422);
  assert.match(page.body, /sign in again/);
  assert.doesNotMatch(page.body, /querystring|required property/);
});
