import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { openAssistant } from '../helpers/assistant.ts';

const { db, instance } = await openAssistant({
  LOGIN_PER_MINUTE: '3',
  TRUSTED_PROXIES: '127.0.0.1',
});
const apps = [await instance(), await instance()];
const [app] = apps;

const login = (address: string, index = 0) =>
  apps[index % apps.length]?.inject({
    url: '/auth/login',
    headers: { 'x-forwarded-for': address },
  });

test('one address begins so many sign-ins a minute, on all instances together', async () => {
  for (let count = 0; count < 3; count += 1) {
    const answer = await login('192.0.2.1', count);
    assert.equal(answer?.statusCode, 302);
    assert.equal(answer.headers['ratelimit-limit'], '3');
    assert.equal(answer.headers['ratelimit-remaining'], String(2 - count));
  }
  const answer = await login('192.0.2.1');
  assert.equal(answer?.statusCode, 429);
  assert.equal(answer.json().code, 'rate_limited');
  assert.equal(answer.headers['ratelimit-remaining'], '0');
  assert.ok(Number(answer.headers['retry-after']) >= 1);
  assert.deepEqual(answer.cookies, []);
  const { rows } = await sql`select count(*)::int as n from pending_logins`.execute(db);
  assert.deepEqual(rows, [{ n: 3 }], 'what is refused stores nothing');

  assert.equal((await login('192.0.2.2'))?.statusCode, 302, 'another address is not affected');
  assert.equal((await app?.inject('/auth/me'))?.statusCode, 401, 'nor is anything else');
});

test('0 is no limit', async () => {
  const unlimited = await instance({ LOGIN_PER_MINUTE: '0' });
  for (let count = 0; count < 5; count += 1) {
    const answer = await unlimited.inject('/auth/login');
    assert.equal(answer.statusCode, 302);
    assert.equal(answer.headers['ratelimit-limit'], undefined);
  }
});
