import assert from 'node:assert/strict';
import { test } from 'node:test';
import { send } from './helpers/http.ts';
import { startIdp } from './helpers/start.ts';

test('the icon that browsers ask for is there', async (t) => {
  const { issuer } = await startIdp(t);
  const answer = await send(new URL('/favicon.ico', issuer));
  assert.equal(answer.status, 200);
  assert.match(answer.headers.get('content-type') ?? '', /^image\/svg\+xml/);
  assert.match(await answer.text(), /^<svg /);
});

test('an address that leads nowhere is answered with a page that leads back', async (t) => {
  const { issuer } = await startIdp(t);
  for (const [method, path] of [
    ['GET', '/nothing'],
    ['GET', '/control/block'],
    ['POST', '/'],
  ] as const) {
    const answer = await send(new URL(path, issuer), { method });
    assert.equal(answer.status, 404);
    assert.match(answer.headers.get('content-security-policy') ?? '', /default-src 'none'/);
    assert.match(await answer.text(), /There is no such page[^]*<a href="\/">/);
  }
});
